package slip_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/saga/slip"
)

// queue is an outbox without transactions: whoever takes a message is its consumer.
type queue struct {
	msgs []waybill.Message
}

func (q *queue) EnqueueMessages(_ context.Context, _ int, b outbox.Batch) ([]bool, error) {
	q.msgs = append(q.msgs, b.Messages...)
	isNew := make([]bool, len(b.Messages))
	for i := range isNew {
		isNew[i] = true
	}
	return isNew, nil
}

func (q *queue) Transact(context.Context, func(context.Context, int) (outbox.Batch, error)) ([]bool, error) {
	return nil, errors.ErrUnsupported
}

func (q *queue) CancelEnqueued(context.Context, int, outbox.Identity) (outbox.Cancellation, error) {
	return outbox.Cancellation{}, errors.ErrUnsupported
}

func (q *queue) WakeRelay() {}

// take returns the next message, or nil.
func (q *queue) take() *waybill.Message {
	if len(q.msgs) == 0 {
		return nil
	}
	m := q.msgs[0]
	q.msgs = q.msgs[1:]
	return &m
}

func newWriter(t *testing.T, q *queue) *outbox.Writer[int] {
	t.Helper()
	w, err := outbox.NewWriter(q, outbox.Config{Source: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestStart_Refuses(t *testing.T) {
	t.Parallel()
	one := func() *slip.Slip { return slip.New().Add("a", "t", nil) }
	tests := []struct {
		name  string
		s     *slip.Slip
		field string
	}{
		{"no activity", slip.New(), "slip.Itinerary"},
		{"activity without a name", one().Add("", "t", nil), "slip.Itinerary[1].Activity"},
		{"long name", one().Add(strings.Repeat("a", waybill.MaxTypeLen+1), "t", nil), "slip.Itinerary[1].Activity"},
		{"no topic", one().Add("b", "", nil), "slip.Itinerary[1].Topic"},
		{"long topic", one().Add("b", strings.Repeat("t", waybill.MaxTopicLen+1), nil), "slip.Itinerary[1].Topic"},
		{"arguments that are no JSON", one().Add("b", "t", func() {}), "slip.Itinerary[1].Args"},
		{"variable that is no JSON", one().Vars(map[string]any{"x": func() {}}), "slip.Vars[x]"},
		{"bad topic of events", one().Events("a\x00b"), "slip.Events"},
		{"too long", one().Vars(map[string]any{"x": strings.Repeat("x", slip.MaxLen)}), "slip.Slip"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q := &queue{}
			err := slip.Start(t.Context(), newWriter(t, q), 0, tt.s)
			var invalid *waybill.InvalidError
			if !errors.As(err, &invalid) || invalid.Field != tt.field {
				t.Errorf("Start() = %v, want an InvalidError of %s", err, tt.field)
			}
			if len(q.msgs) != 0 {
				t.Errorf("%d messages are stored, want none", len(q.msgs))
			}
		})
	}
}

func TestStart_Message(t *testing.T) {
	t.Parallel()
	q := &queue{}
	s := slip.New().Add("a", "t", nil)
	if err := slip.Start(t.Context(), newWriter(t, q), 0, s); err != nil {
		t.Fatal(err)
	}
	m := q.take()
	if m.ID != s.ID()+"/waybill.slip.execute/0" || m.Topic != "t" || m.Key != s.ID() || !slip.GivesUp(m) {
		t.Errorf("message %+v, want the first of the slip, under its key", m)
	}
}

func TestGivesUp(t *testing.T) {
	t.Parallel()
	for typ, want := range map[string]bool{
		"waybill.slip.execute": true, "waybill.slip.compensate": true, "waybill.slip.stuck": false, "order.placed": false,
	} {
		if got := slip.GivesUp(&waybill.Message{Type: typ}); got != want {
			t.Errorf("GivesUp() of %s = %v, want %v", typ, got, want)
		}
	}
}

func TestNewHost_Refuses(t *testing.T) {
	t.Parallel()
	nothing := func(context.Context, int, *slip.Call) error { return nil }
	a := slip.Activity[int]{Name: "a", Execute: nothing}
	for field, activities := range map[string][]slip.Activity[int]{
		"slip.Config.Activities":            nil,
		"slip.Config.Activities[0].Name":    {{Execute: nothing}},
		"slip.Config.Activities[0].Execute": {{Name: "a"}},
		"slip.Config.Activities[1].Name":    {a, a},
	} {
		_, err := slip.NewHost(newWriter(t, &queue{}), slip.Config[int]{Activities: activities})
		var invalid *waybill.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("NewHost() = %v, want an InvalidError of %s", err, field)
		}
	}
	if _, err := slip.NewHost(nil, slip.Config[int]{Activities: []slip.Activity[int]{a}}); err == nil {
		t.Error("NewHost() without a writer = nil, want an error")
	}
}

// TestHandle_Errors: what an activity cannot read is permanent and is not quoted; an activity that
// is not here may be elsewhere.
func TestHandle_Errors(t *testing.T) {
	t.Parallel()
	reads := func(read func(c *slip.Call) error) []slip.Activity[int] {
		return []slip.Activity[int]{{Name: "a", Execute: func(_ context.Context, _ int, c *slip.Call) error { return read(c) }}}
	}
	number := new(int)
	tests := []struct {
		name       string
		activities []slip.Activity[int]
		permanent  bool
	}{
		{"arguments", reads(func(c *slip.Call) error { return c.Args(number) }), true},
		{"variable", reads(func(c *slip.Call) error { _, err := c.Var("v", number); return err }), true},
		{"variable that does not encode", reads(func(c *slip.Call) error { return c.SetVar("v", func() {}) }), true},
		{"log that does not encode", reads(func(c *slip.Call) error { return c.SetLog(func() {}) }), true},
		{"slip that grows too long", reads(func(c *slip.Call) error { return c.SetLog(strings.Repeat("x", slip.MaxLen)) }), true},
		{"unknown activity", []slip.Activity[int]{{Name: "b", Execute: func(context.Context, int, *slip.Call) error { return nil }}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q := &queue{}
			w := newWriter(t, q)
			h, err := slip.NewHost(w, slip.Config[int]{Activities: tt.activities})
			if err != nil {
				t.Fatal(err)
			}
			s := slip.New().Add("a", "t", "secret").Add("z", "t", nil).Vars(map[string]any{"v": "secret"})
			if err := slip.Start(t.Context(), w, 0, s); err != nil {
				t.Fatal(err)
			}
			err = h.Handle(t.Context(), 0, q.take())
			if err == nil || waybill.IsPermanent(err) != tt.permanent || strings.Contains(err.Error(), "secret") {
				t.Errorf("Handle() = %v, permanent = %v; want %v, and no value in it", err, waybill.IsPermanent(err), tt.permanent)
			}
			if len(q.msgs) != 0 {
				t.Errorf("%d messages follow, want none", len(q.msgs))
			}
		})
	}
}
