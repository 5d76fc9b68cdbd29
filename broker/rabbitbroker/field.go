package rabbitbroker

import (
	"encoding/json"
	"math"
	"math/big"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill/internal/cloudevents"
)

// fieldText returns the value of a header as text: as [cloudevents.AMQPText] does, with lists
// and tables as JSON.
func fieldText(value any) string {
	switch v := value.(type) {
	case amqp.Decimal:
		return decimalText(v)
	case amqp.Table, []any:
		text, err := json.Marshal(fieldJSON(v))
		if err != nil {
			return ""
		}
		return string(text)
	}
	return cloudevents.AMQPText(value)
}

// fieldJSON returns value as something that has a JSON form.
func fieldJSON(value any) any {
	switch v := value.(type) {
	case amqp.Table:
		object := make(map[string]any, len(v))
		for name, field := range v {
			object[name] = fieldJSON(field)
		}
		return object
	case []any:
		array := make([]any, len(v))
		for i, field := range v {
			array[i] = fieldJSON(field)
		}
		return array
	case float32:
		return fieldJSON(float64(v))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fieldText(v)
		}
	case []byte, time.Time, amqp.Decimal:
		return fieldText(v)
	}
	return value
}

func decimalText(d amqp.Decimal) string {
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(d.Scale)), nil)
	return new(big.Rat).SetFrac(big.NewInt(int64(d.Value)), unit).FloatString(int(d.Scale))
}

// headerFrameSize returns how many bytes the properties of p take on the wire, or a few more.
// Unlike the body, they must fit into one frame.
func headerFrameSize(p *amqp.Publishing) int {
	size := 64 // frame and class, flags, and the properties of fixed length
	for _, s := range [...]string{p.ContentType, p.ContentEncoding, p.CorrelationId, p.ReplyTo,
		p.Expiration, p.MessageId, p.Type, p.UserId, p.AppId} {
		size += 1 + len(s)
	}
	return size + fieldSize(p.Headers)
}

func fieldSize(value any) int {
	const fixed = 9 // type and the longest value of fixed length
	switch v := value.(type) {
	case string:
		return fixed + len(v)
	case []byte:
		return fixed + len(v)
	case amqp.Table:
		size := fixed
		for name, field := range v {
			size += 1 + len(name) + fieldSize(field)
		}
		return size
	case []any:
		size := fixed
		for _, field := range v {
			size += fieldSize(field)
		}
		return size
	}
	return fixed
}
