package rabbitbroker

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/brokerkit"
	"github.com/waybill-go/waybill/internal/cloudevents"
)

// The headers that this package writes. Message headers cannot have these names.
const (
	sequenceHeader   = "waybill-seq"         // identifies a returned message on its channel
	retryHeader      = "waybill-retry"       // number of retries so far
	retryLeftHeader  = "waybill-retry-left"  // milliseconds to wait beyond the longest step
	exchangeHeader   = "waybill-exchange"    // where a retried message was first published
	routingKeyHeader = "waybill-routing-key" // and with which routing key
)

// check refuses messages that could not be published, or would not arrive as they were
// enqueued.
func check(m *waybill.Message, maxPayload int) error {
	if (m.Topic == "") == (m.To == "") {
		return invalid("Topic", "exactly one of Topic and To is required")
	}
	for _, f := range [...]struct{ name, value string }{
		{"ID", m.ID}, {"Type", m.Type}, {"Source", m.Source}, {"Topic", m.Topic}, {"To", m.To},
		{"CorrelationID", m.CorrelationID},
	} {
		if len(f.value) > maxShortString {
			return invalid(f.name, "has %d bytes, AMQP's limit is %d", len(f.value), maxShortString)
		}
	}
	for name := range m.Headers {
		if err := checkHeaderName(name); err != nil {
			return err
		}
	}
	return brokerkit.CheckPayload(m.Payload, maxPayload)
}

func checkHeaderName(name string) error {
	switch {
	case len(name) > maxShortString:
		return invalid("Headers", "has a name of %d bytes, AMQP's limit is %d", len(name), maxShortString)
	case waybill.ReservedHeader(strings.ToLower(name)):
		return invalid("Headers", "has a name that is reserved for the envelope")
	case name == "CC" || name == "BCC":
		return invalid("Headers", "has the name %s, by which RabbitMQ routes copies elsewhere", name)
	}
	return nil
}

// encode returns m in a content mode of the AMQP binding of CloudEvents. Attributes that
// have an AMQP property of their own are set there as well, for consumers that do not know
// CloudEvents.
func encode(m *waybill.Message, structured bool) amqp.Publishing {
	headers := make(amqp.Table, len(m.Headers)+10)
	for name, value := range m.Headers {
		headers[name] = value
	}
	contentType, body := cloudevents.AMQP.Content(m, structured, func(name, value string) { headers[name] = value })
	p := amqp.Publishing{
		Headers:       headers,
		DeliveryMode:  amqp.Persistent,
		MessageId:     m.ID,
		Type:          m.Type,
		AppId:         m.Source,
		CorrelationId: m.CorrelationID,
		Body:          body,
	}
	if m.Time.Unix() > 0 {
		p.Timestamp = m.Time
	}
	if len(contentType) <= maxShortString {
		p.ContentType = contentType
	} else {
		headers[cloudevents.AMQPPrefix+cloudevents.ContentType] = contentType // the property is too short for it
	}
	return p
}

// decode returns the message in d. CloudEvents attributes come first; AMQP properties stand
// in for those that are missing. The message holds all that could be read even if there is
// an error, which is permanent and quotes no values.
func decode(d *amqp.Delivery) (*waybill.Message, error) {
	m := &waybill.Message{Payload: d.Body}
	m.Topic, m.To = origin(d)
	names := slices.Sorted(maps.Keys(d.Headers))
	event, err := cloudevents.SetAMQP(m, d.Headers, names, fieldText)
	structured := !event && cloudevents.Structured(d.ContentType)
	if structured {
		err = cloudevents.ParseStructured(m, d.ContentType, d.Body)
	}
	contentType := m.ContentType
	err = errors.Join(err, decodeProperties(m, d))
	if structured && err == nil { // the property describes the body, not the data in it
		m.ContentType = contentType
	}
	if d.ContentEncoding != "" {
		cloudevents.SetHeader(m, "content-encoding", d.ContentEncoding)
	}
	_, deadLettered := d.Headers["x-death"]
	cloudevents.FillInAMQP(m, d.Headers, names, fieldText, func(name string) bool { return serverHeader(name, deadLettered) })
	cloudevents.FillInKey(m)
	if err != nil {
		return m, waybill.PermanentError(waybill.ReasonMalformed, fmt.Errorf("decode envelope: %w", err))
	}
	return m, nil
}

// origin returns where d was first published: to a topic or to a queue.
func origin(d *amqp.Delivery) (topic, to string) {
	exchange, key := d.Exchange, d.RoutingKey
	if k, ok := d.Headers[routingKeyHeader].(string); ok {
		exchange, _ = d.Headers[exchangeHeader].(string)
		key = k
	}
	if exchange == amqp.DefaultExchange {
		return "", key
	}
	return key, ""
}

// decodeProperties sets what no attribute has set.
func decodeProperties(m *waybill.Message, d *amqp.Delivery) error {
	err := cloudevents.FillIn(
		cloudevents.Property{Name: "message_id", Value: d.MessageId, Field: &m.ID},
		cloudevents.Property{Name: "type", Value: d.Type, Field: &m.Type},
		cloudevents.Property{Name: "app_id", Value: d.AppId, Field: &m.Source},
		cloudevents.Property{Name: "correlation_id", Value: d.CorrelationId, Field: &m.CorrelationID},
	)
	if cloudevents.Storable(d.ContentType) && d.ContentType != "" {
		m.ContentType = d.ContentType
	}
	// A timestamp beyond the range of dates is milliseconds, or worse: it is omitted.
	if y := d.Timestamp.UTC().Year(); m.Time.IsZero() && !d.Timestamp.IsZero() && y >= 1970 && y <= 9999 {
		m.Time = d.Timestamp.UTC()
	}
	return err
}

// serverHeader reports whether the server has written a header, rather than an application.
func serverHeader(name string, deadLettered bool) bool {
	switch {
	case name == "x-death", name == "x-delivery-count", name == "x-acquired-count":
		return true
	case strings.HasPrefix(name, "x-first-death-"), strings.HasPrefix(name, "x-last-death-"):
		return deadLettered
	}
	return false
}
