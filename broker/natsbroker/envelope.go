package natsbroker

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/cloudevents"
)

const (
	attributePrefix      = "ce-"
	contentTypeAttribute = attributePrefix + cloudevents.ContentType
	contentTypeHeader    = "content-type"

	// encodedHeader names the application headers whose value is percent-encoded.
	encodedHeader = "waybill-encoded"
)

var attributes = cloudevents.NewBinding(attributePrefix)

// usualHeaders is how many headers a message has, without those of the application.
const usualHeaders = 14

// headers are those of one message, with the values in one allocation.
type headers struct {
	nats.Header
	values []string
}

func (h *headers) set(name, value string) {
	n := len(h.values)
	h.values = append(h.values, value)
	h.Header[name] = h.values[n : n+1 : n+1]
}

// setPlain sets a header that only repeats an attribute, if the value fits unchanged.
func (h *headers) setPlain(name, value string) {
	if value != "" && plain(value) {
		h.set(name, value)
	}
}

// encode returns the headers and the data that carry all of m but its address, in a content mode of the
// NATS binding of CloudEvents.
func encode(m *waybill.Message, structured bool) (nats.Header, []byte) {
	size := usualHeaders + len(m.Headers)
	h := headers{make(nats.Header, size), make([]string, 0, size)}
	contentType, data := attributes.Content(m, structured, func(name, value string) { h.set(name, cloudevents.Escape(value)) })
	switch {
	case structured:
		h.set(contentTypeHeader, contentType)
	case m.ContentType != "":
		h.set(contentTypeAttribute, cloudevents.Escape(m.ContentType))
		if !cloudevents.Structured(m.ContentType) {
			h.setPlain(contentTypeHeader, m.ContentType)
		}
	}
	h.setPlain("traceparent", m.TraceParent)
	h.setPlain("tracestate", m.TraceState)
	var encoded []string
	for name, value := range m.Headers {
		if plain(value) {
			h.set(name, value)
		} else {
			h.set(name, cloudevents.Escape(value))
			encoded = append(encoded, name)
		}
	}
	if len(encoded) > 0 {
		slices.Sort(encoded)
		h.set(encodedHeader, strings.Join(encoded, ","))
	}
	return h.Header, data
}

// plain reports whether a NATS header can carry s unchanged: printable ASCII, no space at
// the ends.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f {
			return false
		}
	}
	return s == "" || s[0] != ' ' && s[len(s)-1] != ' '
}

// decode returns the message in a NATS message. With an error, which is permanent, it holds
// what could be read, the payload at least.
func decode(prefix string, in *nats.Msg) (*waybill.Message, error) {
	m := &waybill.Message{Payload: in.Data}
	setAddress(m, prefix, in.Subject)
	var (
		first error
		rest  rest
		event bool
	)
	for name, values := range in.Header {
		name, value := strings.ToLower(name), strings.Join(values, ",")
		attribute, ok := strings.CutPrefix(name, attributePrefix)
		if !ok {
			rest.add(name, value)
			continue
		}
		event = true
		if err := setAttribute(m, attribute, value); err != nil && first == nil {
			first = err
		}
	}
	if err := rest.set(m); err != nil && first == nil {
		first = err
	}
	if cloudevents.Structured(rest.contentType) && !event {
		if err := cloudevents.ParseStructured(m, rest.contentType, in.Data); err != nil {
			first = err
		}
	}
	cloudevents.FillInKey(m)
	if first != nil {
		return m, waybill.PermanentError(waybill.ReasonMalformed, fmt.Errorf("natsbroker: decode envelope: %w", first))
	}
	return m, nil
}

func setAttribute(m *waybill.Message, name, raw string) error {
	value, err := cloudevents.Unescape(raw)
	if err != nil {
		err = fmt.Errorf("attribute %s %w", name, err)
	}
	if wrong := cloudevents.Set(m, name, value); wrong != nil {
		return wrong
	}
	return err
}

// rest is what the headers of a message hold in addition to attributes.
type rest struct {
	contentType, traceParent, traceState string
	encoded                              string      // names, see encodedHeader
	own                                  [][2]string // names in lower case, and values
}

func (r *rest) add(name, value string) {
	switch name {
	case contentTypeHeader:
		r.contentType = value
	case "traceparent":
		r.traceParent = value
	case "tracestate":
		r.traceState = value
	case encodedHeader:
		r.encoded = value
	default:
		if !waybill.ReservedHeader(name) {
			r.own = append(r.own, [2]string{name, value})
		}
	}
}

// set sets the fields for these headers. Those that repeat an attribute count only if that is missing.
func (r *rest) set(m *waybill.Message) (first error) {
	setMissing(&m.ContentType, r.contentType)
	setMissing(&m.TraceParent, r.traceParent)
	setMissing(&m.TraceState, r.traceState)
	if len(r.own) == 0 {
		return nil
	}
	if m.Headers == nil {
		m.Headers = make(map[string]string, len(r.own))
	}
	encoded := strings.Split(r.encoded, ",")
	for _, header := range r.own {
		name, value := header[0], header[1]
		if slices.Contains(encoded, name) {
			value = cloudevents.Unpercent(value)
		}
		value, err := validUTF8(value)
		if err != nil && first == nil {
			first = fmt.Errorf("header %s %w", name, err)
		}
		m.Headers[name] = value
	}
	return first
}

func setMissing(field *string, value string) {
	if *field == "" {
		*field, _ = validUTF8(value)
	}
}

func validUTF8(s string) (string, error) {
	if clean := strings.ToValidUTF8(s, "\ufffd"); clean != s {
		return clean, errors.New("is not UTF-8")
	}
	return s, nil
}
