package kafkabroker

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/cloudevents"
	"github.com/waybill-go/waybill/request"
)

const (
	attributePrefix     = "ce_"
	contentTypeHeader   = "content-type"
	traceParentHeader   = "traceparent"
	traceStateHeader    = "tracestate"
	replacementForBytes = "\ufffd"
)

var attributes = cloudevents.NewBinding(attributePrefix)

// encode returns m in a content mode of the Kafka binding of CloudEvents. The payload is copied,
// because the client library may read it after the sender has stopped waiting. It is never null:
// that would be a deletion in a compacted topic. The record's key is that of the message, or of a
// reply its address.
func encode(m *waybill.Message, topic string, structured bool) *kgo.Record {
	r := &kgo.Record{Topic: topic, Headers: make([]kgo.RecordHeader, 0, 10+len(m.Headers))}
	switch {
	case request.IsAddress(m.To):
		r.Key = []byte(m.To)
	case m.Key != "":
		r.Key = []byte(m.Key)
	}
	set := func(name, value string) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	contentType, body := attributes.Content(m, structured, set)
	r.Value = append([]byte{}, body...)
	switch {
	case contentType == "":
	case cloudevents.Structured(contentType) && !structured: // a reader would take the payload for the event
		set(attributePrefix+cloudevents.ContentType, contentType)
	default:
		set(contentTypeHeader, contentType)
	}
	if m.TraceParent != "" {
		set(traceParentHeader, m.TraceParent)
	}
	if m.TraceState != "" {
		set(traceStateHeader, m.TraceState)
	}
	for name, value := range m.Headers {
		set(name, value)
	}
	return r
}

// sizeOf returns the most bytes that r takes in a batch of its own, before compression.
func sizeOf(r *kgo.Record) int {
	const (
		batchOverhead  = 61
		recordOverhead = 40 // lengths, deltas, attributes, at their longest
		headerOverhead = 10 // two lengths
	)
	n := batchOverhead + recordOverhead + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += headerOverhead + len(h.Key) + len(h.Value)
	}
	return n
}

// decode returns the message in a record. With an error, which is permanent, it holds what could
// be read, the payload at least.
func decode(prefix string, r *kgo.Record) (*waybill.Message, error) {
	m := &waybill.Message{Payload: r.Value}
	setAddress(m, prefix, r)
	reader := cloudevents.Reader{Message: m}
	for _, h := range r.Headers {
		name := strings.ToLower(strings.ToValidUTF8(h.Key, replacementForBytes))
		value, err := text(name, h.Value)
		reader.Note(err)
		if attribute, ok := strings.CutPrefix(name, attributePrefix); ok {
			reader.Attribute(attribute, value)
		} else {
			reader.Header(name, value)
		}
	}
	_, err := reader.Finish("kafkabroker")
	if m.Key == "" && !request.IsAddress(m.To) && len(r.Key) <= waybill.MaxKeyLen && cloudevents.Storable(string(r.Key)) {
		m.Key = string(r.Key)
	}
	return m, err
}

// text returns the value of a header, readable at least, and an error if it is not text.
func text(name string, value []byte) (string, error) {
	s := string(value)
	if cloudevents.Storable(s) {
		return s, nil
	}
	s = strings.ReplaceAll(strings.ToValidUTF8(s, replacementForBytes), "\x00", replacementForBytes)
	return s, fmt.Errorf("header %s: the value is not UTF-8 text", name)
}
