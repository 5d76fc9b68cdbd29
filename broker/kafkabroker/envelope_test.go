package kafkabroker

import (
	"maps"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill"
)

func TestEncode_OfTheBinding(t *testing.T) {
	t.Parallel()
	m := &waybill.Message{
		ID: "1", Type: "order.created", Source: "shop", Topic: "orders", Key: "k", Tenant: "größe",
		ContentType: "application/json", TraceParent: "00-1", Headers: map[string]string{"id": "app"},
	}
	r := encode(m, "p.orders", false)
	got := make(map[string]string)
	for _, h := range r.Headers {
		got[h.Key] = string(h.Value)
	}
	for name, want := range map[string]string{
		"ce_specversion": "1.0", "ce_id": "1", "ce_type": "order.created", "ce_source": "shop",
		"ce_partitionkey": "k", "ce_tenant": "größe", "content-type": "application/json",
		"traceparent": "00-1", "id": "app",
	} {
		if got[name] != want {
			t.Errorf("header %s = %q, want %q", name, got[name], want)
		}
	}
	if string(r.Key) != "k" || r.Topic != "p.orders" {
		t.Errorf("key %q, topic %q, want k, p.orders", r.Key, r.Topic)
	}
	if r.Value == nil {
		t.Error("no payload is null, a deletion to a compacted topic")
	}
	if _, ok := got["ce_datacontenttype"]; ok {
		t.Error("ce_datacontenttype is there, want content-type only")
	}
}

// TestEncode_EventAsPayload sends a payload that is a structured event itself: a reader must
// not take it for the message's envelope.
func TestEncode_EventAsPayload(t *testing.T) {
	t.Parallel()
	m := &waybill.Message{ID: "outer", Topic: "t", ContentType: "application/cloudevents+json", Payload: []byte(`{"specversion":"1.0","id":"inner"}`)}
	r := encode(m, "t", false)
	for _, h := range r.Headers {
		if h.Key == contentTypeHeader {
			t.Errorf("header content-type = %q, want none", h.Value)
		}
	}
	back, err := decode("", r)
	if err != nil || back.ID != "outer" || back.ContentType != m.ContentType || string(back.Payload) != string(m.Payload) {
		t.Errorf("decode() = %+v, %v, want what was sent", back, err)
	}
}

func TestEncode_Structured(t *testing.T) {
	t.Parallel()
	m := &waybill.Message{ID: "1", Type: "t", Source: "s", Key: "k", ContentType: "text/plain", Payload: []byte("ü"), TraceParent: "00-a-b-01", Headers: map[string]string{"x-user": "ann"}}
	r := encode(m, "t", true)
	headers := make(map[string]string)
	for _, h := range r.Headers {
		headers[h.Key] = string(h.Value)
	}
	if want := map[string]string{"content-type": "application/cloudevents+json", "traceparent": "00-a-b-01", "x-user": "ann"}; !maps.Equal(headers, want) {
		t.Errorf("headers %q, want %q", headers, want)
	}
	want := `{"specversion":"1.0","id":"1","source":"s","type":"t","partitionkey":"k","traceparent":"00-a-b-01","datacontenttype":"text/plain","data":"ü"}`
	if string(r.Value) != want || string(r.Key) != "k" {
		t.Errorf("key %q, value %s, want k, %s", r.Key, r.Value, want)
	}
}

func TestDecode_Structured(t *testing.T) {
	t.Parallel()
	m, err := decode("p.", &kgo.Record{
		Topic:   "p.orders",
		Key:     []byte("k"),
		Value:   []byte(`{"specversion":"1.0","id":"1","source":"s","type":"t","data":{"total":12}}`),
		Headers: []kgo.RecordHeader{{Key: "Content-Type", Value: []byte("application/cloudevents+json; charset=UTF-8")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if m.ID != "1" || m.Source != "s" || m.Type != "t" || m.Topic != "orders" || m.Key != "k" || string(m.Payload) != `{"total":12}` || m.ContentType != "application/json" {
		t.Errorf("decode() = %+v", m)
	}
}

func TestDecode_Foreign(t *testing.T) {
	t.Parallel()
	m, err := decode("", &kgo.Record{
		Topic:   "orders",
		Key:     []byte{0xff, 0},
		Headers: []kgo.RecordHeader{{Key: "X-User", Value: []byte("ann")}, {Key: "content-type", Value: []byte("text/plain")}},
	})
	if err != nil || m.Key != "" || m.Headers["x-user"] != "ann" || m.ContentType != "text/plain" || m.ID != "" {
		t.Errorf("decode() = %+v, %v, want what a message has room for", m, err)
	}
	_, err = decode("", &kgo.Record{Topic: "orders", Headers: []kgo.RecordHeader{{Key: "x", Value: []byte("S3CR3T\xff")}}})
	if !waybill.IsPermanent(err) || waybill.ReasonOf(err) != waybill.ReasonMalformed || strings.Contains(err.Error(), "S3CR3T") {
		t.Errorf("header that is no text: %v, want malformed, without the value", err)
	}
}

func TestCheckSize(t *testing.T) {
	t.Parallel()
	r := &kgo.Record{Topic: "t", Key: make([]byte, 10), Value: make([]byte, 1000), Headers: []kgo.RecordHeader{{Key: "h", Value: make([]byte, 20)}}}
	n := sizeOf(r)
	if least := 61 + 7 + 10 + 1000 + 1 + 20; n < least {
		t.Errorf("sizeOf() = %d, less than the %d bytes of its parts", n, least)
	}
	if err := checkSize(r, n); err != nil {
		t.Errorf("at the limit: %v, want nil", err)
	}
	if err := checkSize(r, n-1); waybill.ReasonOf(err) != waybill.ReasonTooLarge {
		t.Errorf("above the limit: %v, want too large", err)
	}
}
