package waybill

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// EventType binds a Go type to its logical name and version on the wire. The name never comes from
// the Go type, so that the type can be renamed or moved without losing messages.
type EventType[T any] struct {
	name    string
	version int
}

// NewEventType returns the event type with the given logical name, such as
// "order.created", and version, counted from 1. It panics if the name is empty, longer than
// [MaxTypeLen] with its version, or holds an '@', or if the version is less than 1.
func NewEventType[T any](name string, version int) EventType[T] {
	t := EventType[T]{name: name, version: version}
	if name == "" || strings.Contains(name, "@") || len(t.Type()) > MaxTypeLen || version < 1 {
		panic(fmt.Sprintf("waybill: bad event type %q version %d", name, version))
	}
	return t
}

// Type returns the value of [Message.Type]: "order.created", or "order.created@v2" from version 2
// on.
func (t EventType[T]) Type() string {
	if t.version <= 1 {
		return t.name
	}
	return t.name + "@v" + strconv.Itoa(t.version)
}

// New returns a message of this type with the JSON form of v as payload, to be published
// to topic. The caller may set further fields before enqueueing it.
func (t EventType[T]) New(topic string, v T) (Message, error) {
	payload, err := json.Marshal(v)
	if err != nil {
		return Message{}, PermanentError(ReasonMalformed, fmt.Errorf("encode %s: %w", t.name, err))
	}
	return Message{Type: t.Type(), Topic: topic, Payload: payload, ContentType: "application/json"}, nil
}

// Decode returns the value in m's payload. The error is permanent, reason malformed, and
// does not quote the payload.
func (t EventType[T]) Decode(m *Message) (T, error) {
	var v T
	if err := json.Unmarshal(m.Payload, &v); err != nil {
		return v, PermanentError(ReasonMalformed, fmt.Errorf("decode %s: %w", t.name, redactJSON(err)))
	}
	return v, nil
}

// redactJSON drops the payload's own characters from an encoding/json error.
func redactJSON(err error) error {
	switch e := err.(type) {
	case *json.SyntaxError:
		return fmt.Errorf("bad JSON at byte %d", e.Offset)
	case *json.UnmarshalTypeError:
		return fmt.Errorf("wrong JSON type in field %q at byte %d, want %s", e.Field, e.Offset, e.Type)
	}
	return fmt.Errorf("bad JSON (%T)", err)
}

// withoutVersion returns a type's logical name. A type without a readable version suffix is its own name.
func withoutVersion(t string) string {
	if i := strings.LastIndex(t, "@v"); i > 0 {
		if v, err := strconv.Atoi(t[i+2:]); err == nil && v > 1 {
			return t[:i]
		}
	}
	return t
}
