package storetest

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/observe"
)

func fieldTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"every field comes back", everyField[Tx], nil},
		{"fields that are not set", unsetFields[Tx], nil},
		{"fields that only some messages set", someFields[Tx], nil},
		{"sent to one destination", sentMessage[Tx], nil},
		{"payloads byte for byte", payloads[Tx], nil},
		{"hostile texts", hostileTexts[Tx], nil},
		{"texts and headers at their limits", longTexts[Tx], nil},
		{"times to the microsecond", exactTimes[Tx], nil},
		{"fields survive waiting, death and schedule", fieldsOnTheWay[Tx], nil},
	}
}

// full is a message with every field set, to texts that are easily damaged.
func full(id string) waybill.Message {
	at := time.Now().UTC().Truncate(time.Microsecond)
	return waybill.Message{
		ID: id, Type: "order.created@v2", Source: "läden/'1'", Topic: "orders.éu",
		Key: `k"1"\x`, Subject: "O'Neil; -- 🚚", Tenant: "ténant",
		Payload: []byte(`{"n": 12345678901234567890.10, "s":"\u0000"}`), ContentType: "application/json; charset=utf-8",
		DataSchema: "https://example.com/s?a=1&b={2}", Headers: map[string]string{"x-user": `ü "q" \ {}`, "empty": "", "a.b_c-1": "1"},
		CorrelationID: "corr 1", CausationID: "cause,2", IdempotencyKey: "idem{3}",
		TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", TraceState: "a=1,b=2",
		Time: at.Add(-time.Hour), ExpiresAt: at.Add(48 * time.Hour),
	}
}

func (e *env[Tx]) wantMessage(got, want waybill.Message) {
	e.Helper()
	for _, f := range []struct{ name, got, want string }{
		{"ID", got.ID, want.ID}, {"Type", got.Type, want.Type}, {"Source", got.Source, want.Source},
		{"Topic", got.Topic, want.Topic}, {"To", got.To, want.To}, {"Key", got.Key, want.Key},
		{"Subject", got.Subject, want.Subject}, {"Tenant", got.Tenant, want.Tenant},
		{"ContentType", got.ContentType, want.ContentType}, {"DataSchema", got.DataSchema, want.DataSchema},
		{"CorrelationID", got.CorrelationID, want.CorrelationID}, {"CausationID", got.CausationID, want.CausationID},
		{"IdempotencyKey", got.IdempotencyKey, want.IdempotencyKey},
		{"TraceParent", got.TraceParent, want.TraceParent}, {"TraceState", got.TraceState, want.TraceState},
	} {
		if f.got != f.want {
			e.Errorf("%s = %q, want %q", f.name, f.got, f.want)
		}
	}
	if !bytes.Equal(got.Payload, want.Payload) {
		e.Errorf("Payload of %d bytes differs from the %d bytes that were enqueued", len(got.Payload), len(want.Payload))
	}
	if !maps.Equal(got.Headers, want.Headers) {
		e.Errorf("Headers = %q, want %q", got.Headers, want.Headers)
	}
	e.wantTime("Time", got.Time, want.Time)
	e.wantTime("DeliverAt", got.DeliverAt, want.DeliverAt)
	e.wantTime("ExpiresAt", got.ExpiresAt, want.ExpiresAt)
}

func (e *env[Tx]) wantTime(name string, got, want time.Time) {
	e.Helper()
	if diff := got.Sub(want); diff <= -time.Microsecond || diff >= time.Microsecond {
		e.Errorf("%s = %v, want %v", name, got, want)
	}
	if got.Location() != time.UTC {
		e.Errorf("%s is in %v, want UTC", name, got.Location())
	}
}

func everyField[Tx any](e *env[Tx]) {
	n := e.join("r1")
	want := full("id 'ü'")
	e.enqueue(want)
	c := n.claimOne(want.ID)
	e.wantMessage(c.Message, want)
	if c.Malformed != nil || c.Waiting || c.Blocked || c.Expired || c.Attempts != 0 || c.Life != 0 || c.DelayFor != 0 || c.Destination != "" {
		e.Errorf("claim of a new message = %+v", c)
	}
	state := e.want(inspect.Pending, want.ID)
	if state.Topic != want.Topic || state.Type != want.Type || state.Source != want.Source || state.Tenant != want.Tenant || state.Key != want.Key {
		e.Errorf("state = %+v, want the message's topic, type, source, tenant and key", state)
	}
}

func unsetFields[Tx any](e *env[Tx]) {
	n := e.join("r1")
	want := waybill.Message{ID: "a", Topic: "orders", Source: "shop"}
	want.Complete()
	e.enqueue(want)
	got := n.claimOne("a").Message
	if age := time.Since(got.Time); age.Abs() > time.Minute {
		e.Errorf("Time of a message without one = %v, want the time of the enqueue", got.Time)
	}
	want.Time = got.Time
	e.wantMessage(got, want)
	if got.Headers != nil || !got.DeliverAt.IsZero() || !got.ExpiresAt.IsZero() {
		e.Errorf("Headers, DeliverAt, ExpiresAt = %v, %v, %v, want none", got.Headers, got.DeliverAt, got.ExpiresAt)
	}
}

// someFields enqueues messages together of which one sets every field and others few, without and
// with ids to remember.
func someFields[Tx any](e *env[Tx]) {
	n := e.join("r1")
	for _, unique := range []bool{false, true} {
		prefix := fmt.Sprintf("%v ", unique)
		sent := waybill.Message{ID: prefix + "sent", To: "billing", Source: "shop", Payload: []byte("1")}
		least := waybill.Message{ID: prefix + "least", Topic: "orders", Source: "shop"}
		sent.Complete()
		least.Complete()
		all := full(prefix + "full")
		e.transact(unique, sent, all, least)
		claims := n.claimOnly(sent.ID, all.ID, least.ID)
		for _, want := range []waybill.Message{sent, all, least} {
			got := find(claims, want.ID).Message
			if want.Time.IsZero() {
				want.Time = got.Time // that of the enqueue
			}
			e.wantMessage(got, want)
		}
		n.settle(published(claims...)...)
	}
}

func sentMessage[Tx any](e *env[Tx]) {
	n := e.join("r1")
	want := msg("a", "k")
	want.Topic, want.To, want.Time = "", "billing", time.Now()
	e.enqueue(want)
	c := n.claimOne("a")
	e.wantMessage(c.Message, want)
	n.settle(failed(c, 0))
	e.wantMessage(n.claimOne("a").Message, want)
	if state := e.want(inspect.Waiting, "a"); state.Topic != "billing" {
		e.Errorf("topic of the state = %q, want the address", state.Topic)
	}
}

func payloads[Tx any](e *env[Tx]) {
	n := e.join("r1")
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for name, payload := range map[string][]byte{
		"nil":           nil,
		"empty":         {},
		"invalid utf-8": []byte("a\xff\xfe\xc3(\x00z"),
		"all bytes":     all,
		"nul":           {0},
		"big integers":  []byte(`{"a": 9007199254740993, "b":1e400,  "a":2}`),
		"escapes":       []byte(`\x41 \\ '' "" {} $1 ?1 :a`),
		"array literal": []byte(`{"NULL",NULL}`),
		"900 KiB":       bytes.Repeat([]byte("0123456789abcde\xff"), 900<<10/16),
		"the limit":     bytes.Repeat([]byte{'x'}, waybill.MaxPayloadLen),
	} {
		m := msg("a", "k")
		m.Payload = payload
		e.enqueue(m)
		c := n.claimOne("a")
		if !bytes.Equal(c.Message.Payload, payload) {
			e.Errorf("payload %s comes back as %d bytes, want the same %d", name, len(c.Message.Payload), len(payload))
		}
		if c.Malformed != nil {
			e.Errorf("payload %s: %v", name, c.Malformed)
		}
		n.settleWith(false, published(c)...)
		e.gone("a")
	}
}

func hostileTexts[Tx any](e *env[Tx]) {
	n := e.join("r1")
	for _, text := range []string{
		"NULL", "null", `\`, `\\`, `\x00`, `"`, `'`, `''`, "{}", "{a,b}", "$1", "?", ":a", "%s", "a,b", " ", "  a  ", "\u2028",
		"\U0001F69A", "e\u0301", "'; DROP TABLE outbox; --", "true", "1e5", "\ufeff", "\u202e",
	} {
		m := msg("id "+text, text)
		m.Subject, m.Tenant, m.Source, m.Headers, m.Time = text, text, text, map[string]string{"x": text}, time.Now()
		e.enqueue(m)
		c := n.claimOne(m.ID)
		e.wantMessage(c.Message, m)
		n.settle(failed(c, 0))
		c = n.claimOne(m.ID)
		e.wantMessage(c.Message, m)
		n.settle(published(c)...)
		e.want(inspect.Published, m.ID)
	}
}

func longTexts[Tx any](e *env[Tx]) {
	n := e.join("r1")
	text := func(n int) string { return strings.Repeat("ü", n/2) + strings.Repeat("x", n%2) }
	want := waybill.Message{
		ID: text(waybill.MaxIDLen), Type: text(waybill.MaxTypeLen), Source: text(waybill.MaxSourceLen),
		Topic: text(waybill.MaxTopicLen), Key: text(waybill.MaxKeyLen), Subject: text(waybill.MaxSubjectLen),
		Tenant: text(waybill.MaxTenantLen), ContentType: text(waybill.MaxURILen), DataSchema: text(waybill.MaxURILen),
		CorrelationID: text(waybill.MaxIDLen), CausationID: text(waybill.MaxIDLen), IdempotencyKey: text(waybill.MaxIDLen),
		TraceParent: text(waybill.MaxTraceLen), TraceState: text(waybill.MaxTraceLen), Time: time.Now(),
		Headers: map[string]string{"x": text(waybill.MaxHeadersLen - 1)},
	}
	e.must(want.Validate(), "Validate")
	e.enqueue(want)
	c := n.claimOne(want.ID)
	e.wantMessage(c.Message, want)
	st := failed(c, 0)
	st.Error = text(observe.MaxErrorLen)
	n.settle(st)
	if got := e.want(inspect.Waiting, want.ID).Error; got != st.Error {
		e.Errorf("an error of %d bytes comes back with %d", len(st.Error), len(got))
	}
}

func exactTimes[Tx any](e *env[Tx]) {
	n := e.join("r1")
	tokyo := time.FixedZone("Asia/Tokyo", 9*60*60)
	for _, at := range []time.Time{
		time.Date(1970, 1, 1, 0, 0, 0, 1000, time.UTC),
		time.Date(2026, 3, 29, 2, 30, 0, 123456000, time.UTC),
		time.Date(2026, 3, 29, 2, 30, 0, 999999999, tokyo),
		time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC),
	} {
		m := msg("a", "k")
		m.Time = at
		e.enqueue(m)
		c := n.claimOne("a")
		e.wantTime("Time", c.Message.Time, at)
		n.settleWith(false, published(c)...)
		e.gone("a")
	}
}

func fieldsOnTheWay[Tx any](e *env[Tx]) {
	n := e.join("r1")
	want := full("a")
	want.DeliverAt = time.Now().Add(time.Hour).Truncate(time.Microsecond)
	e.enqueue(want)
	n.settle(settlement(n.claimOne("a"), contract.Schedule))
	e.advance(2 * time.Hour)
	e.release(1)
	c := n.claimOne("a")
	e.wantMessage(c.Message, want)
	n.settle(fanout(c, "x"))
	c = n.claimOne("a")
	e.wantMessage(c.Message, want)
	n.settle(dead(c))
	letter := e.letter()
	e.wantMessage(letter.Message, want)
	e.requeue(letter.Number, true)
	e.wantMessage(n.claimOne("a").Message, want)
}
