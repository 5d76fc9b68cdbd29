// Package cloudevents maps a message to the attributes of CloudEvents 1.0 and back. Each
// broker writes messages in the content modes of its protocol.
//
// Source: the CloudEvents specification 1.0.2 and its documented extensions partitioning,
// distributed tracing, expiry time and correlation.
package cloudevents

import (
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

// ContentType is the attribute that brokers carry as the content type of their protocol.
const ContentType = "datacontenttype"

// SpecVersion is the value of the attribute specversion.
const SpecVersion = "1.0"

// unknownSource stands for an empty source, which the specification does not allow.
const unknownSource = "unknown"

// field ties one attribute to one field of a message.
type field struct {
	name string
	get  func(*waybill.Message) string
	set  func(*waybill.Message, string) error
}

func text(name string, at func(*waybill.Message) *string) field {
	return field{
		name: name,
		get:  func(m *waybill.Message) string { return *at(m) },
		set:  func(m *waybill.Message, s string) error { *at(m) = s; return nil },
	}
}

func timestamp(name string, at func(*waybill.Message) *time.Time) field {
	return field{
		name: name,
		get: func(m *waybill.Message) string {
			if at(m).IsZero() {
				return ""
			}
			return at(m).UTC().Format(time.RFC3339Nano)
		},
		set: func(m *waybill.Message, s string) error {
			t, err := time.Parse(time.RFC3339Nano, s)
			if err != nil {
				return fmt.Errorf("attribute %s is not an RFC 3339 time", name)
			}
			*at(m) = t
			return nil
		},
	}
}

// fields are all attributes but specversion and [ContentType].
var fields = []field{
	text("id", func(m *waybill.Message) *string { return &m.ID }),
	{
		name: "source",
		get: func(m *waybill.Message) string {
			if m.Source == "" {
				return unknownSource
			}
			return m.Source
		},
		set: func(m *waybill.Message, s string) error { m.Source = s; return nil },
	},
	text("type", func(m *waybill.Message) *string { return &m.Type }),
	text("subject", func(m *waybill.Message) *string { return &m.Subject }),
	timestamp("time", func(m *waybill.Message) *time.Time { return &m.Time }),
	text("dataschema", func(m *waybill.Message) *string { return &m.DataSchema }),
	text("partitionkey", func(m *waybill.Message) *string { return &m.Key }),
	text("traceparent", func(m *waybill.Message) *string { return &m.TraceParent }),
	text("tracestate", func(m *waybill.Message) *string { return &m.TraceState }),
	timestamp("expirytime", func(m *waybill.Message) *time.Time { return &m.ExpiresAt }),
	text("tenant", func(m *waybill.Message) *string { return &m.Tenant }),
	text("correlationid", func(m *waybill.Message) *string { return &m.CorrelationID }),
	text("causationid", func(m *waybill.Message) *string { return &m.CausationID }),
	text("idempotencykey", func(m *waybill.Message) *string { return &m.IdempotencyKey }),
}

var fieldByName = func() map[string]field {
	byName := make(map[string]field, len(fields))
	for _, f := range fields {
		byName[f.name] = f
	}
	return byName
}()

// Binding writes attributes under names with the prefix of a protocol, which are built once and not
// for each message.
type Binding struct {
	specVersion string
	names       []string // in the order of fields
}

// NewBinding returns the binding of a prefix, which may be empty.
func NewBinding(prefix string) Binding {
	b := Binding{specVersion: prefix + "specversion", names: make([]string, len(fields))}
	for i, f := range fields {
		b.names[i] = prefix + f.name
	}
	return b
}

// Each calls yield with the name and value of every attribute of m that is set, specversion
// first. [ContentType] is left out: it is m.ContentType.
func (b Binding) Each(m *waybill.Message, yield func(name, value string)) {
	yield(b.specVersion, SpecVersion)
	for i, f := range fields {
		if v := f.get(m); v != "" {
			yield(b.names[i], v)
		}
	}
}

var plain = NewBinding("")

// Each is [Binding.Each] of a binding without a prefix.
func Each(m *waybill.Message, yield func(name, value string)) { plain.Each(m, yield) }

// Set puts the value of one attribute, named without the protocol's prefix, into m. An attribute
// without a field is kept as a header of that name. The error says what
// is wrong with the value and does not quote it.
func Set(m *waybill.Message, name, value string) error {
	switch {
	case name == "specversion" && value != SpecVersion:
		return fmt.Errorf("attribute specversion is not %s", SpecVersion)
	case name == "specversion":
		return nil
	case name == ContentType:
		m.ContentType = value
		return nil
	}
	if f, ok := fieldByName[name]; ok {
		return f.set(m, value)
	}
	if m.Headers == nil {
		m.Headers = make(map[string]string)
	}
	m.Headers[name] = value
	return nil
}
