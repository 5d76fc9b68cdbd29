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

// AMQPPrefix is what the AMQP binding puts before the name of an attribute to make it an
// application property.
const AMQPPrefix = "cloudEvents:"

// AMQP is the binding of that prefix.
var AMQP = NewBinding(AMQPPrefix)

// amqpPrefixes mark attributes in the messages of others, the one that counts if an attribute is
// there twice last. Case does not matter.
var amqpPrefixes = [...]string{"ce-", "cloudevents_", "cloudevents:"}

// SetAMQP sets the attributes among the application properties of an AMQP message, of which names
// are those to look at, in order; text returns a value as text. It reports whether there are any.
// The error quotes no value.
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
		return errors.New("an attribute is not text") // its name may be as bad
	}
	return Set(m, attribute, value)
}

// Property is a property that a protocol has of its own, and the field that it stands in for if no
// attribute has set that.
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

// FillInTrace takes a header, its name in lower case, for the trace context of m if that is
// missing, and reports whether it has.
func FillInTrace(m *waybill.Message, header, value string) bool {
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

// AMQPText returns a value of AMQP as text: numbers in decimal, times as by RFC 3339, bytes as they
// are if they are UTF-8 and else in base64, nothing as "".
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

// Storable reports whether a text can be kept by every store.
func Storable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}
