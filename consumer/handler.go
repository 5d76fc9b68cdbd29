package consumer

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill"
)

// Handler handles one message in the transaction tx, which also records the message as
// processed. It must not commit tx or roll it back, and must not keep m. The context ends at
// HandlerTimeout and carries m for [waybill.MessageFrom], so that what the handler enqueues
// names m as its cause.
//
// nil commits. An error rolls everything back, and its kind says what happens then: a
// permanent one makes the message a dead letter at once; an unavailable one and a conflict are
// retried without counting; any other is retried as the retry policy says. A panic and
// [runtime.Goexit], which the FailNow of tests calls, are such errors, too: the handler runs in a
// separate goroutine.
type Handler[Tx any] func(ctx context.Context, tx Tx, m *waybill.Message) error

// Mux is a handler that dispatches messages by their type. A message of a type that is
// neither registered nor ignored is a permanent error, reason unknown_type. Register
// everything before the mux is used.
type Mux[Tx any] struct {
	byType map[string]Handler[Tx]
}

// NewMux returns an empty mux.
func NewMux[Tx any]() *Mux[Tx] { return &Mux[Tx]{byType: make(map[string]Handler[Tx])} }

// Handle registers h for messages whose Type is exactly typ. It panics if typ is empty or
// registered already, or if h is nil.
func (m *Mux[Tx]) Handle(typ string, h Handler[Tx]) {
	if typ == "" || h == nil {
		panic("consumer: a type and a handler are required")
	}
	if m.byType[typ] != nil {
		panic(fmt.Sprintf("consumer: type %q is registered twice", typ))
	}
	m.byType[typ] = h
}

// Ignore makes messages of the given types count as processed without doing anything.
func (m *Mux[Tx]) Ignore(types ...string) {
	for _, typ := range types {
		m.Handle(typ, func(context.Context, Tx, *waybill.Message) error { return nil })
	}
}

// Serve is the mux as a [Handler].
func (m *Mux[Tx]) Serve(ctx context.Context, tx Tx, msg *waybill.Message) error {
	h := m.byType[msg.Type]
	if h == nil {
		return waybill.PermanentError(waybill.ReasonUnknownType, fmt.Errorf("no handler for type %q", msg.Type))
	}
	return h(ctx, tx, msg)
}

// On registers h for events of type t, with their payload decoded. A payload that does not
// decode is a permanent error, reason malformed.
func On[T, Tx any](m *Mux[Tx], t waybill.EventType[T], h func(ctx context.Context, tx Tx, event T, msg *waybill.Message) error) {
	m.Handle(t.Type(), func(ctx context.Context, tx Tx, msg *waybill.Message) error {
		event, err := t.Decode(msg)
		if err != nil {
			return err
		}
		return h(ctx, tx, event, msg)
	})
}
