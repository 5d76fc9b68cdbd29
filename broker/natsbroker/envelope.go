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
	attributePrefix   = "ce-"
	contentTypeHeader = "content-type"

	// encodedHeader names the application headers whose value is percent-encoded.
	encodedHeader = "waybill-encoded"
)

// encode returns the headers that carry all of m but its payload and address.
func encode(m *waybill.Message) nats.Header {
	h := make(nats.Header, 16+len(m.Headers))
	cloudevents.Each(m, func(name, value string) {
		h[attributePrefix+name] = []string{cloudevents.Escape(value)}
	})
	if m.ContentType != "" {
		h[attributePrefix+cloudevents.ContentType] = []string{cloudevents.Escape(m.ContentType)}
		if !cloudevents.Structured(m.ContentType) {
			setPlain(h, contentTypeHeader, m.ContentType)
		}
	}
	setPlain(h, "traceparent", m.TraceParent)
	setPlain(h, "tracestate", m.TraceState)
	var encoded []string
	for name, value := range m.Headers {
		if plain(value) {
			h[name] = []string{value}
		} else {
			h[name] = []string{cloudevents.Escape(value)}
			encoded = append(encoded, name)
		}
	}
	if len(encoded) > 0 {
		slices.Sort(encoded)
		h[encodedHeader] = []string{strings.Join(encoded, ",")}
	}
	return h
}

// setPlain sets a header that only repeats an attribute, if it can be had unchanged.
func setPlain(h nats.Header, name, value string) {
	if value != "" && plain(value) {
		h[name] = []string{value}
	}
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
		rest  = make(map[string]string) // all that is no attribute, by lower-case name
		event bool
	)
	for name, values := range in.Header {
		name = strings.ToLower(name)
		attribute, ok := strings.CutPrefix(name, attributePrefix)
		if !ok {
			rest[name] = strings.Join(values, ",")
			continue
		}
		event = true
		if err := setAttribute(m, attribute, strings.Join(values, ",")); err != nil && first == nil {
			first = err
		}
	}
	if err := setRest(m, rest); err != nil && first == nil {
		first = err
	}
	if contentType := rest[contentTypeHeader]; cloudevents.Structured(contentType) && !event {
		if err := cloudevents.ParseStructured(m, contentType, in.Data); err != nil {
			first = err
		}
	}
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

// setRest puts headers that are no attributes where they belong. Those that repeat an
// attribute count only if that is missing.
func setRest(m *waybill.Message, rest map[string]string) error {
	setMissing(&m.ContentType, rest[contentTypeHeader])
	setMissing(&m.TraceParent, rest["traceparent"])
	setMissing(&m.TraceState, rest["tracestate"])
	encoded := strings.Split(rest[encodedHeader], ",")
	var first error
	for name, value := range rest {
		if waybill.ReservedHeader(name) {
			continue
		}
		if slices.Contains(encoded, name) {
			value = cloudevents.Unpercent(value)
		}
		value, err := validUTF8(value)
		if err != nil && first == nil {
			first = fmt.Errorf("header %s %w", name, err)
		}
		if m.Headers == nil {
			m.Headers = make(map[string]string)
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
