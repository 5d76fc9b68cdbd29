package brokertest

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
)

// roundTrip publishes msgs and compares what arrives, field by field.
func (e *env) roundTrip(topic string, msgs ...waybill.Message) {
	e.Helper()
	g := e.subscribe(consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}, 10)
	for i := range msgs {
		e.mustSend(msgs[i])
		a := g.next()
		if a.err != nil {
			e.Fatalf("message %d: Message() = %v", i+1, a.err)
		}
		e.same(a.message, &msgs[i])
		ack(e.T, a)
	}
}

// same compares the fields of a message that are transmitted. DeliverAt is not: it has passed.
func (e *env) same(got, want *waybill.Message) {
	e.Helper()
	for _, f := range []struct{ name, got, want string }{
		{"ID", got.ID, want.ID},
		{"Type", got.Type, want.Type},
		{"Source", got.Source, want.Source},
		{"Topic", got.Topic, want.Topic},
		{"To", got.To, want.To},
		{"Key", got.Key, want.Key},
		{"Subject", got.Subject, want.Subject},
		{"Tenant", got.Tenant, want.Tenant},
		{"ContentType", got.ContentType, want.ContentType},
		{"DataSchema", got.DataSchema, want.DataSchema},
		{"CorrelationID", got.CorrelationID, want.CorrelationID},
		{"CausationID", got.CausationID, want.CausationID},
		{"IdempotencyKey", got.IdempotencyKey, want.IdempotencyKey},
		{"TraceParent", got.TraceParent, want.TraceParent},
		{"TraceState", got.TraceState, want.TraceState},
	} {
		if f.got != f.want {
			e.Errorf("%s = %q, want %q", f.name, f.got, f.want)
		}
	}
	if !bytes.Equal(got.Payload, want.Payload) {
		e.Errorf("Payload has %d bytes and differs from the %d published", len(got.Payload), len(want.Payload))
	}
	if !maps.Equal(got.Headers, want.Headers) {
		e.Errorf("Headers = %q, want %q", got.Headers, want.Headers)
	}
	e.sameTime("Time", got.Time, want.Time)
	e.sameTime("ExpiresAt", got.ExpiresAt, want.ExpiresAt)
}

// sameTime compares to the microsecond, which is what a message keeps.
func (e *env) sameTime(field string, got, want time.Time) {
	e.Helper()
	if !got.Truncate(time.Microsecond).Equal(want.Truncate(time.Microsecond)) {
		e.Errorf("%s = %v, want %v", field, got, want)
	}
}

func testEveryField(e *env) {
	topic := e.name("t")
	e.roundTrip(topic, e.full(topic))
}

// testStructured sends what is easily damaged where a whole event is the body.
func testStructured(e *env) {
	topic := e.name("t")
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	var msgs []waybill.Message
	for _, c := range []struct{ contentType, payload string }{
		{"application/json", `{"b": 12.10,  "a":[1e400, "<ü>"]}`},
		{"application/json", "{}\n"},
		{"application/json", "no JSON"},
		{"application/vnd.shop+json", "null"},
		{"text/plain", "a\x00\"b\" 注文 😀\r\n"},
		{"application/xml", "<a>ü</a>"},
		{"image/png", string(every)},
		{"image/png", ""},
		{"application/cloudevents+json", `{"specversion":"1.0","id":"inner"}`},
		{"application/octet-stream", strings.Repeat(string(every), 600<<10/256)},
	} {
		m := e.full(topic)
		m.ID, m.ContentType, m.Payload = waybill.NewID(), c.contentType, []byte(c.payload)
		msgs = append(msgs, m)
	}
	e.structured = true
	e.roundTrip(topic, append(msgs, message(topic, "few fields"))...)
}

// full returns a message with every field.
func (e *env) full(topic string) waybill.Message {
	tokyo := time.FixedZone("Tokyo", 9*60*60)
	return waybill.Message{
		ID:             e.name("Größe 1/2 %41 \"x\""),
		Type:           "order.created@v2",
		Source:         "https://shop.example/a b?c=d&e=ü",
		Topic:          topic,
		Key:            " key with spaces ",
		Subject:        "注文 😀 4711",
		Tenant:         "acme: west; 50%25",
		Payload:        []byte(`{"total": 12}`),
		ContentType:    `text/plain; charset="utf-8"`,
		DataSchema:     "https://shop.example/schema#v2",
		Headers:        map[string]string{"x-user": "ann"},
		CorrelationID:  `c\1"`,
		CausationID:    "c,2",
		IdempotencyKey: "i\u00a03",
		TraceParent:    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		TraceState:     "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
		Time:           time.Date(2026, 2, 3, 4, 5, 6, 789_012_000, tokyo),
		DeliverAt:      time.Date(2026, 2, 3, 4, 5, 7, 0, time.UTC),
		ExpiresAt:      time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC),
	}
}

func testFewFields(e *env) {
	topic := e.name("t")
	m := message(topic, "x")
	e.roundTrip(topic, m)
}

// testKeyHeader: the header x-idempotency-key stands in for the attribute, which counts if both are there.
func testKeyHeader(e *env) {
	topic := e.name("t")
	g := e.subscribe(consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}, 10)
	for _, c := range []struct{ header, attribute, want string }{
		{"key ü", "", "key ü"},
		{"key ü", "other", "other"},
	} {
		m := message(topic, "x")
		m.IdempotencyKey = c.attribute
		m.Headers = map[string]string{"x-idempotency-key": c.header, "x-user": "ann"}
		e.mustSend(m)
		a := g.next()
		m.IdempotencyKey, m.Headers = c.want, map[string]string{"x-user": "ann"}
		e.same(a.message, &m)
		ack(e.T, a)
	}
}

func testPayloads(e *env) {
	topic := e.name("t")
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	big := bytes.Repeat(every, 900<<10/256)
	var msgs []waybill.Message
	for _, payload := range [][]byte{every, []byte("\xff\xfe\x00 \r\n\r\n"), {}, nil, {0}, []byte("+ACK"), big} {
		m := message(topic, "")
		m.Payload = payload
		msgs = append(msgs, m)
	}
	e.roundTrip(topic, msgs...)
}

func testHeaders(e *env) {
	topic := e.name("t")
	m := message(topic, "x")
	m.Headers = map[string]string{
		"empty":       "",
		"unicode":     "Ünï 😀 注文",
		"spaces":      "  both ends  ",
		"percent":     "100% of 50%25",
		"quoted":      `"a \"b\" c"`,
		"punctuation": "a: b; c, d = e",
		"no-break":    "\u00a0",
		"a.b_c-d9":    "name with punctuation",
		"status":      "503",
		"description": "not ours",
		"subject":     "not the attribute",
		"id":          "not the attribute",
		"key":         "not the key",
		"time":        "yesterday",
	}
	many := message(topic, "")
	many.Headers = make(map[string]string)
	for i := range waybill.MaxHeaders {
		many.Headers[fmt.Sprintf("h%02d", i)] = fmt.Sprint(i)
	}
	e.roundTrip(topic, m, many)
}

// testLimits sends a message each field of which is as long as Validate allows.
func testLimits(e *env) {
	topic := e.name("t")
	long := func(n int) string { return strings.Repeat("x", n) }
	m := waybill.Message{
		ID:             e.id + long(waybill.MaxIDLen-len(e.id)),
		Type:           long(waybill.MaxTypeLen),
		Source:         long(waybill.MaxSourceLen),
		Topic:          topic,
		Key:            long(waybill.MaxKeyLen),
		Subject:        long(waybill.MaxSubjectLen),
		Tenant:         long(waybill.MaxTenantLen),
		Payload:        []byte(long(waybill.MaxPayloadLen)),
		ContentType:    long(waybill.MaxURILen),
		DataSchema:     long(waybill.MaxURILen),
		Headers:        map[string]string{"h": long(waybill.MaxHeadersLen - 1)},
		CorrelationID:  long(waybill.MaxIDLen),
		CausationID:    long(waybill.MaxIDLen),
		IdempotencyKey: long(waybill.MaxIDLen),
		TraceParent:    long(waybill.MaxTraceLen),
		TraceState:     long(waybill.MaxTraceLen),
	}
	if err := m.Validate(); err != nil {
		e.Fatal(err)
	}
	e.roundTrip(topic, m)
}

func testNoID(e *env) {
	topic := e.name("t")
	g := e.subscribe(consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}, 10)
	for _, attributes := range []map[string]string{
		{"specversion": "1.0", "type": "foreign", "source": "elsewhere"},
		{},
	} {
		e.h.PublishRaw(e.T, topic, []byte("payload"), attributes)
		a := g.next()
		if a.err != nil {
			e.Errorf("Message() = %v for attributes %q, want no error", a.err, attributes)
		}
		if a.message.ID != "" || a.text() != "payload" || a.message.Topic != topic {
			e.Errorf("id %q, payload %q, topic %q, want no id, the payload and %q",
				a.message.ID, a.text(), a.message.Topic, topic)
		}
		if a.message.Type != attributes["type"] {
			e.Errorf("Type = %q, want %q", a.message.Type, attributes["type"])
		}
		ack(e.T, a)
	}
}

func testBrokenAttribute(e *env) {
	topic := e.name("t")
	g := e.subscribe(consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}, 10)
	for name, value := range map[string]string{
		"time": "yesterday", "expirytime": "2026-13-01T00:00:00Z", "specversion": "0.3",
	} {
		attributes := map[string]string{
			"specversion": "1.0", "id": "1", "type": "foreign", "source": "elsewhere", name: value,
		}
		e.h.PublishRaw(e.T, topic, []byte("\xffpayload"), attributes)
		a := g.next()
		if a.err == nil {
			e.Errorf("Message() = nil for %s %q, want an error", name, value)
		} else if strings.Contains(a.err.Error(), value) {
			e.Errorf("Message() = %v, which quotes the value", a.err)
		}
		if a.text() != "\xffpayload" || a.message.ID != "1" {
			e.Errorf("id %q, payload %q with the error, want what could be read", a.message.ID, a.text())
		}
		ack(e.T, a)
	}
}
