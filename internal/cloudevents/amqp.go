package cloudevents

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waybill-go/waybill"
)

// AMQPPrefix is the AMQP binding's prefix of attribute names in application properties.
const AMQPPrefix = "cloudEvents:"

// AMQP is the binding of that prefix.
var AMQP = NewBinding(AMQPPrefix)

// amqpPrefixes mark attributes in messages of other producers; if an attribute occurs twice the
// later prefix wins. Case does not matter.
var amqpPrefixes = [...]string{"ce-", "cloudevents_", "cloudevents:"}

// SetAMQP sets the attributes in the application properties of an AMQP message, of which it reads
// names, in order; text returns a value as text. It reports whether there are any. The error quotes
// no value.
func SetAMQP(m *waybill.Message, properties map[string]any, names []string, text func(any) string) (found bool, err error) {
	var errs []error
	for _, prefix := range amqpPrefixes {
		for _, name := range names {
			attribute, ok := cutPrefixFold(name, prefix)
			if !ok {
				continue
			}
			found = true
			errs = append(errs, setText(m, attribute, text(properties[name])))
		}
	}
	return found, errors.Join(errs...)
}

func cutPrefixFold(name, prefix string) (rest string, ok bool) {
	if len(name) <= len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) {
		return "", false
	}
	return strings.ToLower(name[len(prefix):]), true
}

func setText(m *waybill.Message, attribute, value string) error {
	if !Storable(value) {
		return errors.New("an attribute is not text") // its name may be just as invalid
	}
	return Set(m, attribute, value)
}

// Property is a property of a protocol, with the field that it fills in if no attribute has set it.
type Property struct {
	Name, Value string
	Field       *string
}

// FillIn sets the fields that are empty. The error names properties that are not text.
func FillIn(properties ...Property) error {
	var bad []error
	for _, p := range properties {
		switch {
		case *p.Field != "" || p.Value == "":
		case Storable(p.Value):
			*p.Field = p.Value
		default:
			bad = append(bad, fmt.Errorf("property %s is not text", p.Name))
		}
	}
	return errors.Join(bad...)
}

// FillInAMQP sets, from the application properties of an AMQP message, of which it reads names, in order, the headers, as text
// and their names in lower case, and the trace context if it is missing. Names that are reserved, or that others says are not
// the application's, are left out.
func FillInAMQP(m *waybill.Message, properties map[string]any, names []string, text func(any) string, others func(name string) bool) {
	for _, name := range names {
		value := text(properties[name])
		switch lower := strings.ToLower(name); {
		case fillInTrace(m, lower, value), waybill.ReservedHeader(lower), others(name):
		default:
			SetHeader(m, lower, value)
		}
	}
}

// SetHeader sets a header, with what is not UTF-8 replaced.
func SetHeader(m *waybill.Message, name, value string) {
	if m.Headers == nil {
		m.Headers = make(map[string]string)
	}
	m.Headers[strings.ToValidUTF8(name, "\ufffd")] = strings.ToValidUTF8(value, "\ufffd")
}

// fillInTrace sets the trace context of m from a header, its name in lower case, if it is missing,
// and reports whether it did.
func fillInTrace(m *waybill.Message, header, value string) bool {
	var field *string
	switch header {
	case "traceparent":
		field = &m.TraceParent
	case "tracestate":
		field = &m.TraceState
	}
	if field == nil || *field != "" || !Storable(value) {
		return false
	}
	*field = value
	return true
}

// AMQPText returns an AMQP value as text: numbers in decimal, times in RFC 3339, bytes unchanged if
// they are UTF-8 and otherwise in base64, nil as "".
func AMQPText(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case []byte:
		if utf8.Valid(v) {
			return string(v)
		}
		return base64.StdEncoding.EncodeToString(v)
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	}
	return fmt.Sprint(value) // bool, the integers, UUIDs, symbols
}

// Storable reports whether every store can keep a text.
func Storable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}
