package membroker

import (
	"bytes"
	"maps"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/cloudevents"
)

// mail is a message as it is stored in queues. It is shared by all of them and never
// changes.
type mail struct {
	topic, to   string
	contentType string
	attributes  []attribute
	headers     map[string]string
	payload     []byte
}

type attribute struct{ name, value string }

// newMail copies what is not an attribute.
func newMail(m waybill.Message) *mail {
	return &mail{
		topic:       m.Topic,
		to:          m.To,
		contentType: m.ContentType,
		headers:     maps.Clone(m.Headers),
		payload:     bytes.Clone(m.Payload),
	}
}

// encode writes m as a real broker would carry it, so that what is not transmitted there is
// not transmitted here either.
func encode(m *waybill.Message) *mail {
	out := newMail(*m)
	cloudevents.Each(m, func(name, value string) {
		out.attributes = append(out.attributes, attribute{name, value})
	})
	return out
}

// decode returns a message that shares nothing with m. With an error it holds what could be
// read.
func (m *mail) decode() (*waybill.Message, error) {
	out := &waybill.Message{
		Topic:       m.topic,
		To:          m.to,
		ContentType: m.contentType,
		Payload:     bytes.Clone(m.payload),
	}
	var first error
	for _, a := range m.attributes {
		if err := cloudevents.Set(out, a.name, a.value); err != nil && first == nil {
			first = err
		}
	}
	if out.Headers == nil {
		out.Headers = maps.Clone(m.headers)
	} else {
		maps.Copy(out.Headers, m.headers)
	}
	cloudevents.FillInKey(out)
	return out, waybill.PermanentError(waybill.ReasonMalformed, first)
}
