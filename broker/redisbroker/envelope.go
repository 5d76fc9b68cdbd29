package redisbroker

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/cloudevents"
)

// The fields of an entry.
const (
	dataField        = "data"
	contentTypeField = "content-type"
	attributePrefix  = "ce_"
	headerPrefix     = "header_"
)

var attributes = cloudevents.NewBinding(attributePrefix)

// encode returns the fields of an entry, alternating with their values, and their size in bytes.
// It copies the payload, because the caller may reuse it before the entry is written.
func encode(m *waybill.Message, structured bool) (fields []string, size int) {
	fields = make([]string, 0, 2*(12+len(m.Headers))) // most messages have no more
	put := func(name, value string) {
		fields = append(fields, name, value)
		size += len(name) + len(value)
	}
	contentType, body := attributes.Content(m, structured, put)
	if contentType != "" {
		put(contentTypeField, contentType)
	}
	for name, value := range m.Headers {
		put(headerPrefix+name, value)
	}
	put(dataField, string(body))
	return fields, size
}

// decode returns the message in an entry of s. With an error, which is permanent, it holds what
// could be read, the payload at least.
func decode(s source, entry redis.XMessage) (*waybill.Message, error) {
	m := &waybill.Message{Topic: s.topic, To: s.to}
	var (
		first error
		event bool
	)
	for name, value := range entry.Values {
		text, _ := value.(string)
		var err error
		switch {
		case name == dataField:
			m.Payload = []byte(text)
		case name == contentTypeField:
			m.ContentType, err = validUTF8(name, text)
		case strings.HasPrefix(name, attributePrefix):
			event = true
			err = setAttribute(m, name, text)
		default:
			err = setHeader(m, name, text)
		}
		if err != nil && first == nil {
			first = err
		}
	}
	if contentType := m.ContentType; cloudevents.Structured(contentType) && !event && first == nil {
		first = cloudevents.ParseStructured(m, contentType, m.Payload)
	}
	cloudevents.FillInKey(m)
	if first == nil {
		return m, nil
	}
	return m, waybill.PermanentError(waybill.ReasonMalformed, fmt.Errorf("redisbroker: decode envelope: %w", first))
}

func setAttribute(m *waybill.Message, name, raw string) error {
	value, err := validUTF8(name, raw)
	return errors.Join(err, cloudevents.Set(m, strings.TrimPrefix(name, attributePrefix), value))
}

// setHeader keeps a header, or a field of another project, under its lower-case name.
func setHeader(m *waybill.Message, name, raw string) error {
	name = strings.ToLower(strings.TrimPrefix(name, headerPrefix))
	if waybill.ReservedHeader(name) {
		return nil
	}
	value, err := validUTF8("header", raw)
	if m.Headers == nil {
		m.Headers = make(map[string]string)
	}
	m.Headers[name] = value
	return err
}

func validUTF8(what, s string) (string, error) {
	if clean := strings.ToValidUTF8(s, "\ufffd"); clean != s {
		return clean, fmt.Errorf("%s is not UTF-8", what)
	}
	return s, nil
}
