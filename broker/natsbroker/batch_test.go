package natsbroker

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

func TestAcks_ConnectionLost(t *testing.T) {
	t.Parallel()
	a := &acks{batches: make(map[uint64]*batch)}
	begin := func(n int, want bool) *batch {
		t.Helper()
		b, clear := a.begin(make([]contract.Outgoing, n))
		if clear != want {
			t.Errorf("begin() is clear to write: %v, want %v", clear, want)
		}
		return b
	}
	answered, open := begin(1, true), begin(2, true)
	answered.Resolve(0, nil)
	a.end(answered)
	open.Resolve(1, nil)
	a.lose()
	a.lose()
	select {
	case <-open.Done():
	default:
		t.Error("done is open although all results are known")
	}
	results := open.All()
	if !errors.Is(results[0], contract.ErrConnectionLost) || !waybill.IsUnavailable(results[0]) {
		t.Errorf("message without an answer: %v, want unavailable, connection lost", results[0])
	}
	if results[1] != nil || answered.All()[0] != nil {
		t.Errorf("confirmed messages: %v and %v, want nil", results[1], answered.All()[0])
	}
	a.end(begin(1, false)) // the sender of the lost batch does not know yet
	a.end(open)
	a.end(begin(1, true))
}

func TestAcks_Answer(t *testing.T) {
	t.Parallel()
	a := &acks{stream: "s", stored: storedPrefix("s")}
	noResponders := &nats.Msg{Header: nats.Header{"Status": {"503"}}}
	if err := a.answer(noResponders, false); err != errNoResponders {
		t.Errorf("no responders: %v", err)
	}
	for _, c := range []struct {
		name, body string
		resent     bool
		kind       waybill.Kind
		reason     waybill.Reason // of a permanent error
		ok         bool
	}{
		{"stored", `{"stream":"s","seq":1}`, false, 0, "", true},
		{"stored, in a domain", `{"stream":"s", "domain":"hub", "seq":1}`, false, 0, "", true},
		{"refused, with the stream's name first", `{"stream":"s", "seq":0, "error":{"code":400,"err_code":10000,"description":"x"}}`, false, waybill.Transient, "", false},
		{"duplicate of an earlier attempt", `{"stream":"s","seq":1,"duplicate":true}`, true, 0, "", true},
		{"duplicate on the first attempt", `{"stream":"s","seq":1,"duplicate":true}`, false, waybill.Transient, "", false},
		{"stored in another stream", `{"stream":"x","seq":1}`, false, waybill.Permanent, waybill.ReasonUnroutable, false},
		{"no JSON", `+OK`, false, waybill.Transient, "", false},
		{"larger than the stream takes", `{"error":{"code":400,"err_code":10054,"description":"x"}}`, false, waybill.Permanent, waybill.ReasonTooLarge, false},
		{"headers too large", `{"error":{"code":400,"err_code":10097,"description":"x"}}`, false, waybill.Permanent, waybill.ReasonTooLarge, false},
		{"stream full", `{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"}}`, false, waybill.Unavailable, "", false},
		{"insufficient resources", `{"error":{"code":503,"err_code":10023,"description":"x"}}`, false, waybill.Unavailable, "", false},
		{"too many requests", `{"error":{"code":429,"err_code":10167,"description":"x"}}`, false, waybill.Unavailable, "", false},
		{"refused for another reason", `{"error":{"code":400,"err_code":10000,"description":"x"}}`, false, waybill.Transient, "", false},
	} {
		err := a.answer(&nats.Msg{Data: []byte(c.body)}, c.resent)
		switch {
		case c.ok && err != nil, !c.ok && err == nil:
			t.Errorf("%s: %v", c.name, err)
		case err != nil && waybill.KindOf(err) != c.kind:
			t.Errorf("%s: %v of kind %v, want %v", c.name, err, waybill.KindOf(err), c.kind)
		case c.reason != "" && waybill.ReasonOf(err) != c.reason:
			t.Errorf("%s: reason %v, want %v", c.name, waybill.ReasonOf(err), c.reason)
		}
	}
	if err := a.answer(&nats.Msg{Data: []byte(`{"stream":"s","duplicate":true}`)}, false); !errors.Is(err, contract.ErrSwallowed) {
		t.Errorf("duplicate on the first attempt: %v, want ErrSwallowed", err)
	}
}

func TestDedupID_IsInjective(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, m := range []struct{ id, source, subject string }{
		{"1", "a", "s"}, {"1", "b", "s"}, {"2", "a", "s"}, {"1", "a", "t"},
		{"1 a", "", "s"}, {"1%20a", "", "s"}, {"1", " a", "s"},
	} {
		id := dedupID(contract.Outgoing{Message: &waybill.Message{Source: m.source}, DedupID: m.id}, m.subject)
		if seen[id] || !plain(id) {
			t.Errorf("%+v has the id %q, which another one has or a header cannot carry", m, id)
		}
		seen[id] = true
	}
}

func TestCheckSize(t *testing.T) {
	t.Parallel()
	m := &nats.Msg{Header: nats.Header{"a": {"b"}}, Data: make([]byte, 100)}
	size := int64(len("NATS/1.0\r\na: b\r\n\r\n") + 100)
	if err := checkSize(m, size); err != nil {
		t.Errorf("at the limit: %v, want nil", err)
	}
	if err := checkSize(m, size-1); waybill.ReasonOf(err) != waybill.ReasonTooLarge {
		t.Errorf("above the limit: %v, want too large", err)
	}
	m.Header["a"][0] = string(make([]byte, maxHeaders))
	if err := checkSize(m, 1<<30); waybill.ReasonOf(err) != waybill.ReasonTooLarge {
		t.Errorf("headers above 64 KiB: %v, want too large", err)
	}
}
