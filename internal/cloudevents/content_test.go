package cloudevents

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// TestContent_Structured: a message comes back from the structured mode as it was.
func TestContent_Structured(t *testing.T) {
	t.Parallel()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, c := range []struct{ contentType, payload, member string }{
		{"application/json", `{"b": 12.10,  "a":[1e400]}`, `"data":{"b": 12.10,  "a":[1e400]}}`},
		{"application/json", `"text <b>"`, `"data":"text <b>"}`},
		{"application/vnd.shop+json; charset=utf-8", `null`, `"data":null}`},
		{"application/json", "{}\n", `"data_base64":"e30K"}`},
		{"application/json", ` 1`, `"data_base64":"IDE="}`},
		{"application/json", `1,"id":"other"`, `"data_base64":`},
		{"application/json", `{"a":"` + "\xff" + `"}`, `"data_base64":`},
		{"application/json", `not JSON`, `"data_base64":`},
		{"application/json", "", `json"}`},
		{"application/json", strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth), `"data_base64":`},
		{"application/json", strings.Repeat("[", maxDepth-1) + strings.Repeat("]", maxDepth-1), `"data":[[`},
		{"text/plain", "a\x00\"b\" ü </script> \u2028\n", `"data":"a`},
		{"text/plain", "\xff", `"data_base64":`},
		{"text/plain; charset=iso-8859-1", "abc", `"data_base64":`},
		{"text/plain; charset", "abc", `"data_base64":`},
		{"text/plain", "", `plain"}`},
		{"application/soap+xml", "<a>ü</a>", `"data":"`},
		{"image/png", string(every), `"data_base64":`},
		{"application/cloudevents+json", `{"specversion":"1.0"}`, `"data":{"specversion":"1.0"}}`},
	} {
		m := waybill.Message{
			ID: "Größe \"1\"\\", Type: "t", Source: "s", Key: "k", Subject: "😀\u2028<&>", Tenant: "acme", DataSchema: "d",
			CorrelationID: "co", CausationID: "ca", IdempotencyKey: "i", TraceParent: "tp", TraceState: "ts",
			Time: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), ExpiresAt: time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC),
			ContentType: c.contentType, Payload: []byte(c.payload),
		}
		contentType, body := plain.Content(&m, true, func(name, _ string) { t.Errorf("attribute %s was written in addition to the body", name) })
		if contentType != "application/cloudevents+json" || !json.Valid(body) && len(c.payload) < maxDepth || !strings.Contains(string(body), c.member) {
			t.Errorf("%q of %s: %s, %.200s, want it with %s", c.payload, c.contentType, contentType, body, c.member)
		}
		var got waybill.Message
		if err := ParseStructured(&got, contentType, body); err != nil || string(got.Payload) != c.payload {
			t.Errorf("%.50q of %s: came back as %.50q, %v", c.payload, c.contentType, got.Payload, err)
		}
		got.Payload, m.Payload = nil, nil
		if !reflect.DeepEqual(got, m) {
			t.Errorf("came back as %+v, want %+v", got, m)
		}
	}
}

func TestContent_Binary(t *testing.T) {
	t.Parallel()
	m, names := waybill.Message{ID: "1", ContentType: "text/plain", Payload: []byte("x")}, 0
	contentType, body := AMQP.Content(&m, false, func(string, string) { names++ })
	if contentType != "text/plain" || string(body) != "x" || names != 3 {
		t.Errorf("Content() = %s, %q with %d attributes, want what the message has, and id, source and specversion", contentType, body, names)
	}
}

// FuzzContent: whatever a message holds, the structured mode gives it back.
func FuzzContent(f *testing.F) {
	f.Add("1", "application/json", []byte(`{"a":[1]}`))
	f.Add("a\"\\", "text/plain; charset=utf-8", []byte("\xff"))
	f.Add("<", "", []byte(" null"))
	f.Fuzz(func(t *testing.T, id, contentType string, payload []byte) {
		if !Storable(id) || !Storable(contentType) {
			return // no store keeps them
		}
		m := waybill.Message{ID: id, Type: id, Source: "s", ContentType: contentType, Payload: payload}
		_, body := plain.Content(&m, true, nil)
		var got waybill.Message
		if err := ParseStructured(&got, structuredJSON, body); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if m.ContentType == "" {
			m.ContentType = "application/json" // what the format takes for granted
		}
		if got.ID != m.ID || got.ContentType != m.ContentType || !bytes.Equal(got.Payload, payload) {
			t.Errorf("%s came back as %+v", body, got)
		}
	})
}
