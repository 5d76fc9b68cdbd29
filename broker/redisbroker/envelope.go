package redisbroker

import (
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
	r := cloudevents.Reader{Message: &waybill.Message{Topic: s.topic, To: s.to}}
	for field, value := range entry.Values {
		text, _ := value.(string)
		if field == dataField {
			r.Message.Payload = []byte(text)
			continue
		}
		attribute, isAttribute := strings.CutPrefix(field, attributePrefix)
		name := strings.ToLower(strings.TrimPrefix(field, headerPrefix)) // or a field of another project
		if !isAttribute && field != contentTypeField && waybill.ReservedHeader(name) {
			continue
		}
		text, err := cloudevents.UTF8(text)
		r.NoteText("field", strings.ToValidUTF8(field, "\ufffd"), err)
		if isAttribute {
			r.Attribute(attribute, text)
		} else {
			r.Header(name, text)
		}
	}
	return r.Finish("redisbroker")
}
