package slip

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
)

// onTheWay returns a slip of n activities of which the given number is completed, all compensable.
func onTheWay(n, completed int) *state {
	s := &state{ID: "s", Vars: map[string]json.RawMessage{}}
	for range n {
		s.Itinerary = append(s.Itinerary, stop{Activity: "a", Topic: "t"})
	}
	for range completed {
		s.Completed = append(s.Completed, completion{Compensable: true})
	}
	return s
}

// TestPositions walks to the end and back, stuck at each stop: positions rise.
func TestPositions(t *testing.T) {
	t.Parallel()
	const n = 4
	last := -1
	rise := func(s *state, kind waybill.EventType[state]) {
		t.Helper()
		if p := s.position(kind); p <= last {
			t.Errorf("%s with %d completed: position %d, want more than %d", kind.Type(), len(s.Completed), p, last)
		} else {
			last = p
		}
	}
	for completed := range n {
		rise(onTheWay(n, completed), execute)
	}
	for completed := n - 1; completed > 0; completed-- {
		rise(onTheWay(n, completed), compensate)
		rise(onTheWay(n, completed), stuck)
	}
}

// TestLongSlipComesBack turns back a slip of the greatest length with the longest of errors, and
// lets it be stuck: both messages can be stored.
func TestLongSlipComesBack(t *testing.T) {
	t.Parallel()
	s := onTheWay(3, 2)
	s.Vars["fill"] = json.RawMessage(`""`)
	m, err := s.message(execute)
	if err != nil {
		t.Fatal(err)
	}
	s.Vars["fill"] = json.RawMessage(`"` + strings.Repeat("x", MaxLen-len(m.Payload)) + `"`)
	if m, err = s.message(execute); err != nil || len(m.Payload) != MaxLen {
		t.Fatalf("message of %d bytes, %v; want one of %d", len(m.Payload), err, MaxLen)
	}
	worst := Fault{
		Activity: strings.Repeat("\x01", waybill.MaxTypeLen), Reason: waybill.ReasonUnknownType,
		Error: strings.Repeat("\x01", 2048), Attempts: 1 << 40, // the longest error text
	}
	for _, step := range []struct { // in the order of a slip
		name string
		do   func(Fault) ([]waybill.Message, error)
	}{{"turn back", s.turnBack}, {"halt", s.halt}} {
		msgs, err := step.do(worst)
		if err != nil || len(msgs) != 1 {
			t.Fatalf("%s: %d messages, %v", step.name, len(msgs), err)
		}
		m := msgs[0]
		m.Source = "host"
		m.Complete()
		if err := m.Validate(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
	}
	s.Vars["fill"] = json.RawMessage(`"` + strings.Repeat("x", MaxLen) + `"`)
	if _, err := s.message(execute); waybill.ReasonOf(err) != waybill.ReasonMalformed {
		t.Errorf("a slip that is too long: %v, want an InvalidError", err)
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, typ, payload string
		want               waybill.Reason
	}{
		{"another type", "order.placed", `{}`, waybill.ReasonUnknownType},
		{"no JSON", execute.Type(), `{`, waybill.ReasonMalformed},
		{"no itinerary", execute.Type(), `{"id":"s"}`, waybill.ReasonMalformed},
		{"all is completed", execute.Type(), `{"id":"s","itinerary":[{}],"completed":[{}]}`, waybill.ReasonMalformed},
		{"nothing is completed", compensate.Type(), `{"id":"s","itinerary":[{}]}`, waybill.ReasonMalformed},
		{"more than all is completed", compensate.Type(), `{"id":"s","itinerary":[{}],"completed":[{},{}]}`, waybill.ReasonMalformed},
		{"stuck without a failure", stuck.Type(), `{"id":"s","itinerary":[{}],"completed":[{}]}`, waybill.ReasonMalformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, _, err := decode(&waybill.Message{Type: tt.typ, Payload: []byte(tt.payload)})
			if !waybill.IsPermanent(err) || waybill.ReasonOf(err) != tt.want {
				t.Errorf("decode() = %v (%s), want %s", err, waybill.ReasonOf(err), tt.want)
			}
		})
	}
}
