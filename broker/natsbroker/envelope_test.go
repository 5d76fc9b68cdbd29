package natsbroker

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/waybill-go/waybill"
)

func TestEncode_Headers(t *testing.T) {
	t.Parallel()
	m := &waybill.Message{
		ID: "1 ü", Type: "t", Source: "s", Topic: "t", ContentType: "text/plain",
		TraceParent: "00-a-b-01",
		Time:        time.Date(2026, 1, 2, 3, 4, 5, 600_000, time.UTC),
		Headers:     map[string]string{"plain": "50% off", "edge": " x", "uni": "ü"},
	}
	want := map[string]string{
		"ce-specversion":     "1.0",
		"ce-id":              "1%20%C3%BC",
		"ce-type":            "t",
		"ce-source":          "s",
		"ce-time":            "2026-01-02T03:04:05.0006Z",
		"ce-traceparent":     "00-a-b-01",
		"ce-datacontenttype": "text/plain",
		"content-type":       "text/plain",
		"traceparent":        "00-a-b-01",
		"plain":              "50% off",
		"edge":               "%20x",
		"uni":                "%C3%BC",
		"waybill-encoded":    "edge,uni",
	}
	got := make(map[string]string)
	header, _ := encode(m, false)
	for name, values := range header {
		got[name] = strings.Join(values, "|")
	}
	if !maps.Equal(got, want) {
		t.Errorf("encode() = %q, want %q", got, want)
	}
}

func TestDecode_ForeignProducers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		header nats.Header
		want   waybill.Message
		broken bool
	}{
		{"no headers", nil, waybill.Message{}, false},
		{"content type only as NATS header", nats.Header{"Content-Type": {"text/plain"}},
			waybill.Message{ContentType: "text/plain"}, false},
		{"trace context only as NATS header", nats.Header{"traceparent": {"00-a-b-01"}, "tracestate": {"x=y"}},
			waybill.Message{TraceParent: "00-a-b-01", TraceState: "x=y"}, false},
		{"upper-case names", nats.Header{"CE-ID": {"1"}, "X-User": {"ann"}},
			waybill.Message{ID: "1", Headers: map[string]string{"x-user": "ann"}}, false},
		{"percent in a header that is not ours", nats.Header{"x": {"a%20b"}},
			waybill.Message{Headers: map[string]string{"x": "a%20b"}}, false},
		{"several values", nats.Header{"x": {"a", "b"}},
			waybill.Message{Headers: map[string]string{"x": "a,b"}}, false},
		{"unknown attribute", nats.Header{"ce-id": {"1"}, "ce-priority": {"high"}},
			waybill.Message{ID: "1", Headers: map[string]string{"priority": "high"}}, false},
		{"headers of the server", nats.Header{"Nats-Msg-Id": {"1"}, "Nats-Stream": {"s"}},
			waybill.Message{}, false},
		{"structured mode that is no JSON", nats.Header{"content-type": {"application/cloudevents+json"}},
			waybill.Message{ContentType: "application/cloudevents+json"}, true},
		{"attribute not UTF-8", nats.Header{"ce-id": {"1"}, "ce-subject": {"%ff"}},
			waybill.Message{ID: "1", Subject: "\ufffd"}, true},
		{"header not UTF-8", nats.Header{"x": {"\xff"}},
			waybill.Message{Headers: map[string]string{"x": "\ufffd"}}, true},
		{"time in another form", nats.Header{"ce-id": {"1"}, "ce-time": {"today"}},
			waybill.Message{ID: "1"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := decode("p.", &nats.Msg{Subject: "p.t", Data: []byte("x"), Header: c.header})
			if (err != nil) != c.broken || err != nil && waybill.ReasonOf(err) != waybill.ReasonMalformed {
				t.Errorf("decode() = %v, want an error of reason malformed: %v", err, c.broken)
			}
			c.want.Topic = "t"
			same(t, got, &c.want)
			if string(got.Payload) != "x" {
				t.Errorf("Payload = %q, want x", got.Payload)
			}
		})
	}
}

func same(t *testing.T, got, want *waybill.Message) {
	t.Helper()
	type flat struct{ id, typ, source, topic, to, key, subject, contentType, parent, state string }
	of := func(m *waybill.Message) flat {
		return flat{m.ID, m.Type, m.Source, m.Topic, m.To, m.Key, m.Subject, m.ContentType, m.TraceParent, m.TraceState}
	}
	if of(got) != of(want) || !maps.Equal(got.Headers, want.Headers) {
		t.Errorf("message %+v, want %+v", got, want)
	}
}

// FuzzDecode takes any header block as a server might pass it on. Whatever it holds, the
// payload must come out, all texts must be UTF-8, and no error may quote the input.
func FuzzDecode(f *testing.F) {
	f.Add("ce-id: 1\r\nce-specversion: 1.0\r\nce-time: 2026-01-02T03:04:05Z\r\nx: y\r\n\r\n", "waybill.t", "x")
	f.Add("ce-id: \"a\\\"%20\"\r\nwaybill-encoded: x,\r\nx: %ff\r\n\r\n", "waybill._to.q", "")
	f.Add("ce-:\r\nCE-subject: %\r\n\r\n", "", "\xff")
	f.Fuzz(func(t *testing.T, block, subject, payload string) {
		// The library panics on some first lines; what it takes for a status is not ours.
		header, err := nats.DecodeHeadersMsg([]byte("NATS/1.0\r\n" + block))
		if err != nil {
			return
		}
		m, err := decode("waybill.", &nats.Msg{Subject: subject, Header: header, Data: []byte(payload)})
		if string(m.Payload) != payload {
			t.Errorf("payload %q, want %q", m.Payload, payload)
		}
		if err != nil && len(err.Error()) > 400 {
			t.Errorf("decode() = %v", err)
		}
		for _, s := range []string{m.ID, m.Type, m.Source, m.Key, m.Subject, m.Tenant, m.ContentType, m.TraceParent} {
			if !utf8.ValidString(s) {
				t.Errorf("%q is not UTF-8", s)
			}
		}
		for _, s := range m.Headers {
			if !utf8.ValidString(s) {
				t.Errorf("header value %q is not UTF-8", s)
			}
		}
	})
}

// FuzzRoundTrip sends any valid message through the wire form of its headers.
func FuzzRoundTrip(f *testing.F) {
	f.Add("1", "order.created", "k", "name", " value % \"ü\" ", "text/plain")
	f.Add("%", "\"", "😀", "a.b_c-d", "", "application/cloudevents+json")
	f.Fuzz(func(t *testing.T, id, typ, key, name, value, contentType string) {
		m := waybill.Message{ID: id, Type: typ, Key: key, Source: "s", Topic: "t", ContentType: contentType,
			Headers: map[string]string{name: value}}
		if m.Complete(); m.Validate() != nil {
			return
		}
		msg := nats.NewMsg("waybill.t")
		msg.Header, _ = encode(&m, false)
		block := "NATS/1.0\r\n"
		for name, values := range msg.Header {
			block += name + ": " + values[0] + "\r\n"
		}
		var err error
		if msg.Header, err = nats.DecodeHeadersMsg([]byte(block + "\r\n")); err != nil {
			t.Fatal(err)
		}
		got, err := decode("waybill.", msg)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, &m)
	})
}

func TestEncode_Structured(t *testing.T) {
	t.Parallel()
	m := &waybill.Message{ID: "1", Type: "t", Source: "s", ContentType: "text/plain", Payload: []byte("ü"), TraceParent: "00-a-b-01", Headers: map[string]string{"x-user": "ü"}}
	header, data := encode(m, true)
	want := nats.Header{"content-type": {"application/cloudevents+json"}, "traceparent": {"00-a-b-01"}, "x-user": {"%C3%BC"}, "waybill-encoded": {"x-user"}}
	if !maps.EqualFunc(header, want, slices.Equal) {
		t.Errorf("header %q, want %q", header, want)
	}
	if want := `{"specversion":"1.0","id":"1","source":"s","type":"t","traceparent":"00-a-b-01","datacontenttype":"text/plain","data":"ü"}`; string(data) != want {
		t.Errorf("data %s, want %s", data, want)
	}
}

func TestDecode_Structured(t *testing.T) {
	t.Parallel()
	in := &nats.Msg{Subject: "p.t", Data: []byte(`{"specversion":"1.0","id":"1","type":"a","source":"/x","data":{"n": 1.50}}`),
		Header: nats.Header{"Content-Type": {"application/cloudevents+json; charset=utf-8"}, "x-user": {"ann"}}}
	got, err := decode("p.", in)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, &waybill.Message{Topic: "t", ID: "1", Type: "a", Source: "/x", ContentType: "application/json", Headers: map[string]string{"x-user": "ann"}})
	if string(got.Payload) != `{"n": 1.50}` {
		t.Errorf("Payload = %q, want the data as it stands there", got.Payload)
	}
	in.Header["ce-id"] = []string{"2"} // binary, with a payload that is an event
	if got, err := decode("p.", in); err != nil || got.ID != "2" || string(got.Payload) != string(in.Data) {
		t.Errorf("decode() = %+v, %v, want the body as the payload, next to attributes in headers", got, err)
	}
}

// TestEnvelope_Allocations: what a message costs in addition to the client library.
func TestEnvelope_Allocations(t *testing.T) {
	m := &waybill.Message{ID: "1", Type: "t", Source: "s", Topic: "t", Key: "k", Tenant: "default", ContentType: "text/plain", Payload: []byte("x")}
	header, data := encode(m, false)
	in := &nats.Msg{Subject: "t", Header: header, Data: data}
	for _, tc := range []struct {
		name string
		most float64
		do   func()
	}{
		{"encode", 6, func() { encode(m, false) }},
		{"decode", 1, func() { decode("", in) }},
	} {
		if got := testing.AllocsPerRun(100, tc.do); got > tc.most {
			t.Errorf("%s makes %v allocations, want %v at most", tc.name, got, tc.most)
		}
	}
}
