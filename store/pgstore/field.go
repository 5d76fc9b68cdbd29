package pgstore

import (
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/lanehash"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// field is a column of the outbox that an enqueue may write.
type field struct {
	name, kind string                           // kind is the SQL type of the argument
	cast       string                           // from that to the column's type
	set        func(m *waybill.Message) bool    // whether m has another value than the default
	value      func(m *waybill.Message) any     // the argument for one message
	values     func(msgs []waybill.Message) any // the argument for several
}

func newField[T any](name, kind string, set func(m *waybill.Message) bool, get func(m *waybill.Message) T) field {
	return field{
		name: name, kind: kind, set: set,
		value: func(m *waybill.Message) any { return get(m) },
		values: func(msgs []waybill.Message) any {
			list := make([]T, len(msgs))
			for i := range msgs {
				list[i] = get(&msgs[i])
			}
			return list
		},
	}
}

// textField is a field whose default is standard.
func textField(name, standard string, get func(m *waybill.Message) string) field {
	return newField(name, "text", func(m *waybill.Message) bool { return get(m) != standard }, get)
}

func timeField(name string, get func(m *waybill.Message) time.Time) field {
	return newField(name, "timestamptz", func(m *waybill.Message) bool { return !get(m).IsZero() },
		func(m *waybill.Message) *time.Time { return sqldb.Timestamp(get(m)) })
}

func always(*waybill.Message) bool { return true }

// enqueueFields are all fields. Source has a default that an operator may have chosen, so it is always given; a
// row without a lane would pass the trigger.
var enqueueFields = [...]field{
	newField("lane", "smallint", always, func(m *waybill.Message) int16 { return int16(lanehash.Of(m)) }),
	newField("id", "text", always, func(m *waybill.Message) string { return m.ID }),
	newField("topic", "text", always, (*waybill.Message).Address),
	newField("source", "text", always, func(m *waybill.Message) string { return m.Source }),
	newField("payload_bytes", "bytea", always, payloadBytes),
	textField("key", "", func(m *waybill.Message) string { return m.Key }),
	textField("type", "", func(m *waybill.Message) string { return m.Type }),
	newField("direct", "boolean", isDirect, isDirect),
	textField("tenant", waybill.DefaultTenant, func(m *waybill.Message) string { return m.Tenant }),
	textField("subject", "", func(m *waybill.Message) string { return m.Subject }),
	textField("content_type", "application/json", func(m *waybill.Message) string { return m.ContentType }),
	textField("data_schema", "", func(m *waybill.Message) string { return m.DataSchema }),
	headersField(),
	textField("correlation_id", "", func(m *waybill.Message) string { return m.CorrelationID }),
	textField("causation_id", "", func(m *waybill.Message) string { return m.CausationID }),
	textField("idempotency_key", "", func(m *waybill.Message) string { return m.IdempotencyKey }),
	textField("trace_parent", "", func(m *waybill.Message) string { return m.TraceParent }),
	textField("trace_state", "", func(m *waybill.Message) string { return m.TraceState }),
	timeField("time", func(m *waybill.Message) time.Time { return m.Time }),
	timeField("deliver_at", func(m *waybill.Message) time.Time { return m.DeliverAt }),
	timeField("expires_at", func(m *waybill.Message) time.Time { return m.ExpiresAt }),
}

func isDirect(m *waybill.Message) bool { return m.To != "" }

func payloadBytes(m *waybill.Message) []byte {
	if m.Payload == nil {
		return []byte{}
	}
	return m.Payload
}

func headersField() field {
	f := newField("headers", "text", func(m *waybill.Message) bool { return len(m.Headers) > 0 }, sqldb.Headers)
	f.cast = "::jsonb"
	return f
}

// fieldSet are some of [enqueueFields], by their index.
type fieldSet uint32

// fieldsOf returns the fields that at least one of msgs needs. The others are left to
// their defaults: a message rarely has more than half of them, and each one costs.
func fieldsOf(msgs []waybill.Message) fieldSet {
	var set fieldSet
	for i := range enqueueFields {
		for j := range msgs {
			if enqueueFields[i].set(&msgs[j]) {
				set |= 1 << i
				break
			}
		}
	}
	return set
}

// list renders every field of the set with render, whose n counts from 1.
func (set fieldSet) list(render func(n int, f *field) string) string {
	return set.some(func(*field) bool { return true }, render)
}

// some renders those fields of the set that pick is true for, as list does.
func (set fieldSet) some(pick func(f *field) bool, render func(n int, f *field) string) string {
	var parts []string
	n := 0
	for i := range enqueueFields {
		if set&(1<<i) == 0 {
			continue
		}
		if n++; pick(&enqueueFields[i]) {
			parts = append(parts, render(n, &enqueueFields[i]))
		}
	}
	return strings.Join(parts, ", ")
}

// one renders the field with a name; the empty text if it is not in the set.
func (set fieldSet) one(name string, render func(n int, f *field) string) string {
	return set.some(func(f *field) bool { return f.name == name }, render)
}

// identifies reports whether the field is part of a message's identity.
func identifies(f *field) bool { return f.name == "id" || f.name == "source" || f.name == "tenant" }

// args are the arguments of the set's fields: values of one message, or slices.
func (set fieldSet) args(msgs []waybill.Message, many bool) []any {
	args := make([]any, 0, len(enqueueFields))
	for i := range enqueueFields {
		switch f := &enqueueFields[i]; {
		case set&(1<<i) == 0:
		case many:
			args = append(args, f.values(msgs))
		default:
			args = append(args, f.value(&msgs[0]))
		}
	}
	return args
}
