package natsbroker

import (
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
	r := cloudevents.Reader{Message: m}
	encoded := encodedIn(in.Header)
	for name, values := range in.Header {
		name, value := strings.ToLower(name), strings.Join(values, ",")
		var err error
		if attribute, ok := strings.CutPrefix(name, attributePrefix); ok {
			value, err = cloudevents.Unescape(value)
			r.NoteText("attribute", attribute, err)
			r.Attribute(attribute, value)
			continue
		}
		if slices.Contains(encoded, name) {
			value = cloudevents.Unpercent(value)
		}
		if value, err = cloudevents.UTF8(value); !waybill.ReservedHeader(name) {
			r.NoteText("header", name, err)
		}
		r.Header(name, value)
	}
	return r.Finish("natsbroker")
}

// encodedIn returns the names of the application headers whose value is percent-encoded.
func encodedIn(header nats.Header) []string {
	for name, values := range header {
		if strings.EqualFold(name, encodedHeader) {
			return strings.Split(strings.Join(values, ","), ",")
		}
	}
	return nil
}
