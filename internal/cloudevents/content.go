package cloudevents

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/waybill-go/waybill"
)

// Content returns the content type and the body of m in a content mode. In the binary mode the body is
// the payload, and yield is called with each attribute as by [Binding.Each]; in the structured mode
// the body is a new slice with attributes and payload.
func (b Binding) Content(m *waybill.Message, structured bool, yield func(name, value string)) (contentType string, body []byte) {
	if structured {
		return structuredJSON, formatStructured(m)
	}
	b.Each(m, yield)
	return m.ContentType, m.Payload
}

// formatStructured returns m in the JSON format, from which [ParseStructured] restores the same
// payload, byte for byte: JSON is embedded unchanged, text is a string, everything else is in base64.
func formatStructured(m *waybill.Message) []byte {
	head := []byte{'{'}
	add := func(name, value string) {
		head = append(head, '"')
		head = append(append(head, name...), `":`...)
		head = append(append(head, quoted(value)...), ',')
	}
	Each(m, add)
	if m.ContentType != "" {
		add(ContentType, m.ContentType)
	}
	head = head[:len(head)-1]
	switch {
	case len(m.Payload) == 0:
		return append(head, '}')
	case m.ContentType == "" || isJSON(m.ContentType):
		if event, ok := withJSON(head, m.Payload); ok {
			return event
		}
	case isText(m.ContentType) && utf8.Valid(m.Payload):
		return append(append(append(head, `,"data":`...), quoted(string(m.Payload))...), '}')
	}
	head = append(head, `,"data_base64":"`...)
	return append(base64.StdEncoding.AppendEncode(head, m.Payload), `"}`...)
}

// quoted returns s as a JSON string.
func quoted(s string) []byte {
	q, _ := json.Marshal(s) // never fails for a string
	return q
}

// maxDepth is the nesting limit of package json.
const maxDepth = 10_000

// withJSON returns the event with data unchanged, and false if data is not JSON that a reader would
// restore exactly: surrounding space is lost, and the event adds one level.
func withJSON(head, data []byte) ([]byte, bool) {
	if !utf8.Valid(data) || len(bytes.TrimSpace(data)) != len(data) || !json.Valid(data) {
		return nil, false
	}
	event := append(append(append(bytes.Clone(head), `,"data":`...), data...), '}')
	return event, len(data) < maxDepth || json.Valid(event)
}

// isText reports whether a media type is UTF-8 text, as JSON strings are.
func isText(contentType string) bool {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	switch strings.ToLower(params["charset"]) {
	case "", "utf-8", "us-ascii":
		return strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "+xml") || media == "application/xml"
	}
	return false
}
