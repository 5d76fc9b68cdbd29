package asbbroker

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/brokerkit"
	"github.com/waybill-go/waybill/internal/cloudevents"
)

// The application properties that this package writes. Message headers cannot have these names.
const (
	retryProperty     = "waybill-retry"      // number of delayed retries so far
	topicProperty     = "waybill-topic"      // where a retried message was first published
	toProperty        = "waybill-to"         // or sent
	messageIDProperty = "waybill-message-id" // and its message id
)

// keylessSessions is the number of sessions that messages without a key are spread over.
const keylessSessions = 32

// check refuses messages that would not arrive as they were enqueued.
func check(m *waybill.Message, maxPayload int) error {
	for name := range m.Headers {
		if waybill.ReservedHeader(strings.ToLower(name)) {
			return invalid("Headers", "has a name that is reserved for the envelope")
		}
	}
	if maxPayload == 0 {
		return nil // the service says
	}
	return brokerkit.CheckPayload(m.Payload, maxPayload)
}

// encode returns m in a content mode of the AMQP binding of CloudEvents, with a copy of its
// payload. Attributes that have a Service Bus property of their own are set there as well, for
// consumers that do not know CloudEvents.
func encode(m contract.Outgoing, sessions bool) *azservicebus.Message {
	properties := make(map[string]any, len(m.Headers)+10)
	for name, value := range m.Headers {
		properties[name] = value
	}
	contentType, body := cloudevents.AMQP.Content(m.Message, m.Structured, func(name, value string) { properties[name] = value })
	id := messageID(m)
	out := &azservicebus.Message{
		ApplicationProperties: properties,
		Body:                  bytes.Clone(body),
		MessageID:             &id,
		ContentType:           optional(contentType),
		Subject:               optional(m.Type),
		CorrelationID:         optional(m.CorrelationID),
	}
	if sessions {
		id := sessionID(m.Message)
		out.SessionID = &id
	}
	return out
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// escapeID keeps the parts of a message id apart.
var escapeID = strings.NewReplacer("%", "%25", " ", "%20")

// messageID returns the id by which the service detects duplicates: of DedupID and source, because
// ids are unique per source only. It is hashed if it is too long for the service.
func messageID(m contract.Outgoing) string {
	return shortID(escapeID.Replace(m.DedupID) + " " + escapeID.Replace(m.Source))
}

// sessionID returns the session of a message: its key. Messages without one are spread over a
// fixed number of sessions, so that they wait for few others and sessions stay few.
func sessionID(m *waybill.Message) string {
	if m.Key != "" {
		return shortID(m.Key)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(m.ID)) // never fails
	return fmt.Sprintf("waybill-%d", h.Sum32()%keylessSessions)
}

// decode returns the message in r, which came from the given topic or destination unless r says
// otherwise. CloudEvents attributes come first; AMQP properties stand in for those that are
// missing. The message holds all that could be read even if there is an error, which is permanent
// and quotes no values.
func decode(r *azservicebus.ReceivedMessage, topic, to string) (*waybill.Message, error) {
	m := &waybill.Message{Topic: topic, To: to}
	properties := r.ApplicationProperties
	if origin, ok := properties[topicProperty].(string); ok {
		m.Topic, m.To = origin, ""
	} else if origin, ok := properties[toProperty].(string); ok {
		m.Topic, m.To = "", origin
	}
	names := slices.Sorted(maps.Keys(properties))
	event, err := cloudevents.SetAMQP(m, properties, names, cloudevents.AMQPText)
	err = errors.Join(decodeBody(m, r), err)
	contentType := valueOf(r.ContentType)
	if !event && cloudevents.Structured(contentType) {
		err = errors.Join(err, cloudevents.ParseStructured(m, contentType, m.Payload))
	}
	err = errors.Join(err, decodeProperties(m, r))
	cloudevents.FillInAMQP(m, properties, names, cloudevents.AMQPText, func(string) bool { return false })
	cloudevents.FillInKey(m)
	if err != nil {
		return m, waybill.PermanentError(waybill.ReasonMalformed, fmt.Errorf("decode envelope: %w", err))
	}
	return m, nil
}

// decodeBody takes the payload from whichever kind of body there is.
func decodeBody(m *waybill.Message, r *azservicebus.ReceivedMessage) error {
	m.Payload = r.Body
	if r.Body != nil || r.RawAMQPMessage == nil {
		return nil
	}
	switch body := r.RawAMQPMessage.Body; {
	case len(body.Data) > 0:
		m.Payload = bytes.Join(body.Data, nil)
	case body.Value != nil:
		m.Payload = []byte(cloudevents.AMQPText(body.Value))
	case len(body.Sequence) > 0:
		return errors.New("the body is a sequence of AMQP values")
	}
	return nil
}

// decodeProperties sets what no attribute has set.
func decodeProperties(m *waybill.Message, r *azservicebus.ReceivedMessage) error {
	id := r.MessageID
	if original, ok := r.ApplicationProperties[messageIDProperty].(string); ok {
		id = original
	}
	return cloudevents.FillIn(
		cloudevents.Property{Name: "message-id", Value: id, Field: &m.ID},
		cloudevents.Property{Name: "subject", Value: valueOf(r.Subject), Field: &m.Type},
		cloudevents.Property{Name: "correlation-id", Value: valueOf(r.CorrelationID), Field: &m.CorrelationID},
		cloudevents.Property{Name: "content-type", Value: valueOf(r.ContentType), Field: &m.ContentType},
	)
}

// valueOf returns what p points to, the zero value if that is nothing.
func valueOf[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
