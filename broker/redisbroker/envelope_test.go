package redisbroker

import (
	"reflect"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
)

// received returns the entry of the sample as the client library hands it over.
func received() redis.XMessage {
	fields, _ := encode(sample(), false)
	values := make(map[string]any)
	for i := 0; i < len(fields); i += 2 {
		values[fields[i]] = fields[i+1]
	}
	return redis.XMessage{ID: "1-0", Values: values}
}

func TestDecode_RoundTrip(t *testing.T) {
	t.Parallel()
	m, err := decode(source{topic: "orders"}, received())
	if want := sample(); err != nil || !reflect.DeepEqual(m, want) {
		t.Errorf("decode() = %+v, %v, want %+v", m, err, want)
	}
}

// TestDecode_Allocations fails if each field costs an allocation. The message, its payload and its
// headers are 4 of them. The test is not parallel, as it counts what the whole program allocates.
func TestDecode_Allocations(t *testing.T) {
	entry := received()
	if got := testing.AllocsPerRun(100, func() { _, _ = decode(source{topic: "orders"}, entry) }); got > 4 {
		t.Errorf("%.0f allocations, want 4 at most", got)
	}
}

func TestEncode_Structured(t *testing.T) {
	t.Parallel()
	m := &waybill.Message{ID: "1", Type: "t", Source: "s", ContentType: "text/plain", Payload: []byte("ü"), Headers: map[string]string{"x-user": "ann"}}
	want := []string{
		"content-type", "application/cloudevents+json", "header_x-user", "ann",
		"data", `{"specversion":"1.0","id":"1","source":"s","type":"t","datacontenttype":"text/plain","data":"ü"}`,
	}
	if got, _ := encode(m, true); !slices.Equal(got, want) {
		t.Errorf("encode() = %q, want %q", got, want)
	}
}

func TestDecode_Structured(t *testing.T) {
	t.Parallel()
	body := `{"specversion":"1.0","id":"1","type":"a","source":"/x","data":{"n": 1.50}}`
	values := map[string]any{dataField: body, contentTypeField: "application/cloudevents+json; charset=utf-8", "x-user": "ann"}
	m, err := decode(source{topic: "orders"}, redis.XMessage{Values: values})
	want := &waybill.Message{Topic: "orders", ID: "1", Type: "a", Source: "/x", ContentType: "application/json", Payload: []byte(`{"n": 1.50}`),
		Headers: map[string]string{"x-user": "ann"}}
	if err != nil || !reflect.DeepEqual(m, want) {
		t.Errorf("decode() = %+v, %v, want %+v", m, err, want)
	}
	values[attributePrefix+"id"] = "2" // binary, with a payload that is an event
	if m, err := decode(source{topic: "orders"}, redis.XMessage{Values: values}); err != nil || m.ID != "2" || string(m.Payload) != body {
		t.Errorf("decode() = %+v, %v, want the body as the payload, next to attributes in fields", m, err)
	}
	for _, bad := range []string{`{`, `{"id":"1"}`} {
		values := map[string]any{dataField: bad, contentTypeField: "application/cloudevents+json"}
		if m, err := decode(source{topic: "orders"}, redis.XMessage{Values: values}); !waybill.IsPermanent(err) || string(m.Payload) != bad {
			t.Errorf("decode() = %+v, %v of %s, want a permanent error, and the body", m, err, bad)
		}
	}
}
