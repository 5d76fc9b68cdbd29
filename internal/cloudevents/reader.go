package cloudevents

import (
	"fmt"
	"strings"

	"github.com/waybill-go/waybill"
)

// Reader restores a message from the headers of a protocol, in any order. Its message has the address already, and the body as
// its payload. The first error is kept; none quotes a value.
type Reader struct {
	Message *waybill.Message

	err                                  error
	binary                               bool // there is an attribute
	contentType, traceParent, traceState string
}

// Note takes an error, or nil.
func (r *Reader) Note(err error) {
	if r.err == nil {
		r.err = err
	}
}

// NoteText takes what is wrong with the text of an attribute or a header, or nil.
func (r *Reader) NoteText(what, name string, err error) {
	if err != nil {
		r.Note(fmt.Errorf("%s %s %w", what, name, err))
	}
}

// Attribute takes an attribute, named in lower case and without its prefix. One without a field is kept as a header, unless a
// header has its name.
func (r *Reader) Attribute(name, value string) {
	r.binary = true
	_, hasField := fieldByName[name]
	if _, isHeader := r.Message.Headers[name]; isHeader && !hasField && name != ContentType && name != "specversion" {
		return
	}
	r.Note(Set(r.Message, name, value))
}

// Header takes a header that is no attribute, named in lower case. The content type and the trace context count if no attribute
// says them; other reserved names are dropped.
func (r *Reader) Header(name, value string) {
	switch {
	case name == "content-type":
		r.contentType = value
	case name == "traceparent":
		r.traceParent = value
	case name == "tracestate":
		r.traceState = value
	case waybill.ReservedHeader(name):
	default:
		if r.Message.Headers == nil {
			r.Message.Headers = make(map[string]string)
		}
		r.Message.Headers[name] = value
	}
}

// Finish returns the message, in the structured mode from its payload. With an error, which is permanent, the message holds
// what could be read, the payload at least.
func (r *Reader) Finish(adapter string) (*waybill.Message, error) {
	m := r.Message
	setMissing(&m.ContentType, r.contentType)
	setMissing(&m.TraceParent, r.traceParent)
	setMissing(&m.TraceState, r.traceState)
	if Structured(r.contentType) && !r.binary {
		r.Note(ParseStructured(m, r.contentType, m.Payload))
	}
	FillInKey(m)
	if r.err == nil {
		return m, nil
	}
	return m, waybill.PermanentError(waybill.ReasonMalformed, fmt.Errorf("%s: decode envelope: %w", adapter, r.err))
}

func setMissing(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

// UTF8 returns s with what is not UTF-8 replaced, and an error if there is any.
func UTF8(s string) (string, error) {
	if clean := strings.ToValidUTF8(s, "\ufffd"); clean != s {
		return clean, errNotUTF8
	}
	return s, nil
}
