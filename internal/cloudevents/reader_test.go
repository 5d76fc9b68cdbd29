package cloudevents

import (
	"maps"
	"testing"

	"github.com/waybill-go/waybill"
)

// TestReader_Precedence reads what occurs as an attribute and as a header, in both orders.
func TestReader_Precedence(t *testing.T) {
	t.Parallel()
	attributes := func(r *Reader) {
		r.Attribute("type", "a")
		r.Attribute("traceparent", "from the attribute")
		r.Attribute("priority", "of the attribute")
	}
	headers := func(r *Reader) {
		r.Header("type", "h")
		r.Header("traceparent", "from the header")
		r.Header("tracestate", "from the header")
		r.Header("content-type", "text/plain")
		r.Header("priority", "of the header")
		r.Header("waybill-seq", "1")
	}
	for _, order := range [][]func(*Reader){{attributes, headers}, {headers, attributes}} {
		r := Reader{Message: &waybill.Message{Payload: []byte("x")}}
		for _, read := range order {
			read(&r)
		}
		m, err := r.Finish("test")
		if err != nil || m.Type != "a" || m.TraceParent != "from the attribute" || m.TraceState != "from the header" || m.ContentType != "text/plain" {
			t.Errorf("message %+v, %v", m, err)
		}
		if want := map[string]string{"type": "h", "priority": "of the header"}; !maps.Equal(m.Headers, want) {
			t.Errorf("headers %q, want %q", m.Headers, want)
		}
	}
}

func TestReader_Structured(t *testing.T) {
	t.Parallel()
	const event = `{"specversion":"1.0","id":"1","source":"s","type":"t","data":{"n":1}}`
	for _, binary := range []bool{false, true} {
		r := Reader{Message: &waybill.Message{Payload: []byte(event)}}
		r.Header("content-type", "application/cloudevents+json")
		want := `{"n":1}`
		if binary {
			r.Attribute("id", "1")
			want = event
		}
		if m, err := r.Finish("test"); err != nil || m.ID != "1" || string(m.Payload) != want {
			t.Errorf("message %+v, %v, want the payload %s", m, err, want)
		}
	}
}

func TestReader_FirstError(t *testing.T) {
	t.Parallel()
	r := Reader{Message: &waybill.Message{Payload: []byte("x")}}
	_, err := UTF8("S3CR3T\xff")
	r.NoteText("header", "x", err)
	r.Attribute("time", "today")
	m, err := r.Finish("test")
	if waybill.ReasonOf(err) != waybill.ReasonMalformed || string(m.Payload) != "x" || err.Error() != "test: decode envelope: header x is not UTF-8" {
		t.Errorf("Finish() = %+v, %v, want the first error and the payload", m, err)
	}
}
