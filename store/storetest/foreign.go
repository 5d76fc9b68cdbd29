package storetest

import (
	"slices"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
)

func foreignTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"topic and payload are enough", foreignPlain[Tx], []need{foreignRows}},
		{"with headers and key", foreignHeaders[Tx], []need{foreignRows}},
		{"headers that do not decode", foreignMalformed[Tx], []need{foreignRows}},
		{"a topic beyond the limits", foreignTopic[Tx], []need{foreignRows}},
	}
}

func (e *env[Tx]) insertRaw(raw Raw) {
	e.Helper()
	e.must(e.h.InsertRaw(e.s, raw), "InsertRaw")
}

func foreignPlain[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.insertRaw(Raw{Topic: "orders", Payload: `{"n": 9007199254740993,  "a":"ü\u0000"}`})
	e.insertRaw(Raw{Topic: "orders", Payload: ""})
	claims := n.claim()
	if len(claims) != 2 {
		e.Fatalf("claimed %d messages, want 2", len(claims))
	}
	slices.SortFunc(claims, func(a, b contract.Claim) int { return len(b.Message.Payload) - len(a.Message.Payload) })
	m := claims[0].Message
	if claims[0].Malformed != nil {
		e.Fatal(claims[0].Malformed)
	}
	if m.ID == "" || m.Topic != "orders" || m.Type != "orders" || m.Tenant != waybill.DefaultTenant || m.ContentType != "application/json" || m.Time.IsZero() {
		e.Errorf("message = %+v, want an id, a time and the defaults", m)
	}
	if string(m.Payload) != `{"n": 9007199254740993,  "a":"ü\u0000"}` {
		e.Errorf("payload = %s, want it byte for byte", m.Payload)
	}
	if claims[1].Message.ID == m.ID {
		e.Error("two messages have one id")
	}
	e.want(inspect.Pending, m.ID)
	n.settle(published(claims...)...)
	e.want(inspect.Published, m.ID)
}

func foreignHeaders[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.insertRaw(Raw{Topic: "orders", Key: "k", Headers: `{"x": "ü", "y": ""}`, Payload: "1"})
	e.enqueue(msg("a", "k"))
	claims := n.claim()
	if len(claims) != 2 || claims[1].Message.ID != "a" || claims[0].Lane != claims[1].Lane {
		e.Fatalf("claims = %+v, want both in one lane, in the order of their enqueues", claims)
	}
	if m := claims[0].Message; m.Headers["x"] != "ü" || len(m.Headers) != 2 || m.Key != "k" {
		e.Errorf("message = %+v, want its two headers", m)
	}
}

func foreignMalformed[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", ""))
	bad := []string{`{"x": 1}`, `["x"]`, `"x"`, `{"x": {"y": "z"}}`, `{"X-Upper": "1"}`}
	for _, headers := range bad {
		e.insertRaw(Raw{Topic: "orders", Key: "k", Headers: headers, Payload: "p"})
	}
	e.enqueue(msg("b", "k"))
	claims := n.claim()
	if len(claims) != len(bad)+2 {
		e.Fatalf("claimed %d messages, want %d", len(claims), len(bad)+2)
	}
	var outcomes []contract.Settlement
	for _, c := range claims {
		good := c.Message.ID == "a" || c.Message.ID == "b"
		if (c.Malformed == nil) != good {
			e.Errorf("message %q with headers %v: Malformed = %v", c.Message.ID, c.Message.Headers, c.Malformed)
		}
		if good {
			continue
		}
		if string(c.Message.Payload) != "p" || c.Message.Topic != "orders" || c.Message.Key != "k" {
			e.Errorf("malformed message = %+v, want what could be read", c.Message)
		}
		st := dead(c)
		st.Reason = waybill.ReasonMalformed
		outcomes = append(outcomes, st)
	}
	n.settle(outcomes...)
	n.claimOnly("a", "b")
	letters := e.lettersByReason(waybill.ReasonMalformed)
	if len(letters) != len(bad) {
		e.Fatalf("%d malformed letters, want %d", len(letters), len(bad))
	}
	e.want(inspect.Dead, letters[0])
	e.requeue(e.numberOf(letters[0]), true)
	if c := find(n.claim(), letters[0]); c.Malformed == nil {
		e.Error("the message decodes after its requeue, which changes nothing about it")
	}
}

func foreignTopic[Tx any](e *env[Tx]) {
	n := e.join("r1")
	topic := string(slices.Repeat([]byte("t"), waybill.MaxTopicLen+1))
	if e.h.InsertRaw(e.s, Raw{Topic: topic, Payload: "p"}) != nil {
		n.claimOnly() // the database checks it
		return
	}
	claims := n.claim()
	if len(claims) != 1 || claims[0].Malformed == nil {
		e.Fatalf("claims = %+v, want one that is malformed", claims)
	}
	n.settle(dead(claims[0]))
	e.want(inspect.Dead, claims[0].Message.ID)
}

// lettersByReason returns the message ids of the dead letters with a reason.
func (e *env[Tx]) lettersByReason(reason waybill.Reason) []string {
	e.Helper()
	var list []string
	for _, l := range e.letters(deadletter.Filter{}) {
		if l.Reason == reason {
			list = append(list, l.Message.ID)
		}
	}
	return list
}

// numberOf returns the number of the dead letter with a message id.
func (e *env[Tx]) numberOf(id string) int64 {
	e.Helper()
	for _, l := range e.letters(deadletter.Filter{}) {
		if l.Message.ID == id {
			return l.Number
		}
	}
	e.Fatalf("no letter of message %s", id)
	return 0
}
