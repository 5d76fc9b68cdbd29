package cloudevents

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strings"

	"github.com/waybill-go/waybill"
)

const (
	structuredMark = "application/cloudevents"
	structuredJSON = structuredMark + "+json"
	batchJSON      = structuredMark + "-batch+json"
)

// Structured reports whether a content type marks the structured mode of CloudEvents, in any
// format: attributes and data are in the body.
func Structured(contentType string) bool {
	return len(contentType) >= len(structuredMark) && strings.EqualFold(contentType[:len(structuredMark)], structuredMark)
}

// ParseStructured reads a body of the structured mode into m, which holds the address and
// application headers already. Payload becomes the data: JSON byte for byte as in the body, a text
// where datacontenttype is not JSON, or the decoded data_base64. It supports the JSON format, with
// one event in a body. After an error m holds the attributes that could be read, and the whole body
// as Payload. The error quotes no value.
func ParseStructured(m *waybill.Message, contentType string, body []byte) error {
	m.Payload = body
	switch media, _, err := mime.ParseMediaType(contentType); {
	case err != nil:
		return errors.New("the content type of the structured mode is malformed")
	case media == batchJSON:
		return errors.New("a batch of events is no message: they could not be acknowledged one by one")
	case media != structuredJSON:
		return errors.New("of the structured mode of CloudEvents, only " + structuredJSON + " is known")
	}
	var event map[string]json.RawMessage
	if err := json.Unmarshal(body, &event); err != nil || event == nil {
		return errors.New("the structured event is no JSON object")
	}
	var first error
	note := func(err error) {
		if err != nil && first == nil {
			first = err
		}
	}
	if _, ok := event["specversion"]; !ok {
		note(errors.New("attribute specversion is missing"))
	}
	m.ContentType = "application/json"
	for name, raw := range event {
		if name == "data" || name == "data_base64" {
			continue
		}
		value, set, err := attributeText(name, raw)
		switch {
		case err != nil:
			note(err)
		case set:
			note(Set(m, name, value))
		}
	}
	payload, err := structuredData(m.ContentType, event)
	note(err)
	if first == nil {
		m.Payload = payload
	}
	return first
}

// attributeText returns an attribute in its text form; null means not set.
func attributeText(name string, raw json.RawMessage) (value string, set bool, err error) {
	switch text := string(raw); {
	case text == "null":
		return "", false, nil
	case text[0] == '"':
		err = json.Unmarshal(raw, &value)
		return value, true, err
	case text[0] == '{', text[0] == '[':
		return "", false, fmt.Errorf("attribute %s is neither text, number nor boolean", name)
	default:
		return text, true, nil
	}
}

// structuredData returns the payload from the members data and data_base64.
func structuredData(contentType string, event map[string]json.RawMessage) ([]byte, error) {
	data, text := event["data"]
	encoded, binary := event["data_base64"]
	switch {
	case text && binary:
		return nil, errors.New("data and data_base64 are both there")
	case binary:
		var s string
		if err := json.Unmarshal(encoded, &s); err != nil {
			return nil, errors.New("data_base64 is no text")
		}
		payload, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return nil, errors.New("data_base64 is not base64")
		}
		return payload, nil
	case text && data[0] == '"' && !isJSON(contentType):
		var s string
		err := json.Unmarshal(data, &s)
		return []byte(s), err
	}
	return data, nil
}

// isJSON reports whether a media type is of JSON: */json, or with the suffix +json.
func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	_, kind, _ := strings.Cut(media, "/")
	return kind == "json" || strings.HasSuffix(kind, "+json")
}
