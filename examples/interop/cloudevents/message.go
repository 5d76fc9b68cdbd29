// Package cloudevents lets the Go SDK of CloudEvents read what Waybill publishes to RabbitMQ, NATS, Kafka,
// Redis and Service Bus. Its tests also send what the SDK writes to each of them, and to the receiver of
// webhooks, for which the SDK has its own binding.
//
// It is a separate module, so that programs that use Waybill do not depend on the SDK. The SDK has no
// binding for AMQP 0.9.1 and for Redis, those for the others bring a client library each, and this package
// needs only the essence of a binding: a prefix and a body.
package cloudevents

import (
	"bytes"
	"context"
	"strings"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/binding/format"
	"github.com/cloudevents/sdk-go/v2/binding/spec"
)

// The prefixes of attributes among a message's headers.
const (
	RabbitMQ   = "cloudEvents:"
	ServiceBus = "cloudEvents:"
	NATS       = "ce-"
	Kafka      = "ce_"
	Redis      = "ce_"
)

// message implements the SDK's message interface for either content mode.
type message struct {
	headers     map[string]string
	contentType string
	body        []byte
	prefix      string
	versions    *spec.Versions
}

var (
	_ binding.Message               = (*message)(nil)
	_ binding.MessageMetadataReader = (*message)(nil)
)

// NewMessage returns a message whose attributes are the headers with a prefix, or are in the body if the
// content type is that of a whole event. It is read with binding.ToEvent.
func NewMessage(prefix string, headers map[string]string, contentType string, body []byte) binding.Message {
	return &message{headers: headers, contentType: contentType, body: body, prefix: prefix, versions: spec.WithPrefix(prefix)}
}

func (m *message) ReadEncoding() binding.Encoding {
	switch {
	case m.version() != nil:
		return binding.EncodingBinary
	case format.Lookup(m.contentType) != nil:
		return binding.EncodingStructured
	}
	return binding.EncodingUnknown
}

func (m *message) version() spec.Version {
	return m.versions.Version(m.headers[m.versions.PrefixedSpecVersionName()])
}

func (m *message) ReadStructured(ctx context.Context, w binding.StructuredWriter) error {
	if m.ReadEncoding() != binding.EncodingStructured {
		return binding.ErrNotStructured
	}
	return w.SetStructuredEvent(ctx, format.Lookup(m.contentType), bytes.NewReader(m.body))
}

func (m *message) ReadBinary(ctx context.Context, w binding.BinaryWriter) error {
	version := m.version()
	if version == nil {
		return binding.ErrNotBinary
	}
	if err := w.SetAttribute(version.AttributeFromKind(spec.DataContentType), m.contentType); err != nil {
		return err
	}
	for name, value := range m.headers {
		attribute, ok := strings.CutPrefix(name, m.prefix)
		if !ok || attribute == "datacontenttype" {
			continue
		}
		var err error
		if known := version.Attribute(name); known != nil {
			err = w.SetAttribute(known, value)
		} else {
			err = w.SetExtension(attribute, value)
		}
		if err != nil {
			return err
		}
	}
	return w.SetData(bytes.NewReader(m.body))
}

func (m *message) GetAttribute(kind spec.Kind) (spec.Attribute, any) {
	attribute := m.version().AttributeFromKind(kind)
	if attribute == nil {
		return nil, nil
	}
	return attribute, m.headers[attribute.PrefixedName()]
}

func (m *message) GetExtension(name string) any { return m.headers[m.prefix+name] }

func (m *message) Finish(error) error { return nil }
