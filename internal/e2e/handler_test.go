package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/observe"
)

// TestMessagesWithoutID (AS-38): a message without an id becomes a dead letter; a correlation id is not one.
//
//test:sessions
//test:pooled
func TestMessagesWithoutID(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), membroker.New()
	sub := from(b, consumer.Subscription{Group: "billing", Topics: []string{"orders"}})
	w.startConsumer(t, sub, w.effectHandler("billing"), consumer.Config{})
	if err := b.PublishRaw("orders", []byte(`{}`), map[string]string{"type": "orders", "source": "x", "specversion": "1.0"}, nil); err != nil {
		t.Fatal(err)
	}
	letters := w.waitLetters(t, deadletter.Filter{}, 1)
	if l := letters[0]; l.Reason != waybill.ReasonNoID || l.Origin != deadletter.FromConsumer {
		t.Errorf("dead letter = %+v, want no_id from the consumer", l)
	}
	for _, id := range []string{"one", "two"} {
		publish(t, b, waybill.Message{ID: id, Topic: "orders", CorrelationID: "flow"}, id)
		w.waitEffects(t, "billing", id, 1)
	}
}

//test:sessions
func TestMessageKeyForForeignProducers(t *testing.T) {
	t.Parallel()
	w, b, ops := plainWorld(t), membroker.New(), newOpCounter()
	sub := from(b, consumer.Subscription{Group: "billing", Topics: []string{"orders"}})
	w.startConsumer(t, sub, w.effectHandler("billing"), consumer.Config{
		Observer:   ops,
		MessageKey: func(m *waybill.Message) (string, error) { return string(m.Payload), nil },
	})
	for range 2 {
		if err := b.PublishRaw("orders", []byte(`order-1`), map[string]string{"type": "orders", "source": "x", "specversion": "1.0"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the second is a duplicate", func() bool { return ops.count(observe.OpDuplicate) == 1 })
	if n := w.number(t, "SELECT count(*) FROM "+w.table("effects")); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

type placed struct {
	Order string `json:"order"`
}

// TestUnknownMalformedUnhandled (AS-39): what has an unknown type, cannot be decoded, or has no handler becomes a
// dead letter with its reason.
//
//test:sessions
//test:pooled
func TestUnknownMalformedUnhandled(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		conn := b.connect(t)
		mux := consumer.NewMux[pgx.Tx]()
		consumer.On(mux, waybill.NewEventType[placed]("order.placed", 1), func(ctx context.Context, tx pgx.Tx, e placed, m *waybill.Message) error {
			return w.addEffect(ctx, tx, "billing", e.Order)
		})
		mux.Ignore("order.viewed")
		w.startConsumer(t, b.subscribe(t, conn, "billing", "orders"), mux.Serve, consumer.Config{})
		for id, m := range map[string]waybill.Message{
			"good":    {Type: "order.placed", Payload: []byte(`{"order":"o1"}`)},
			"broken":  {Type: "order.placed", Payload: []byte(`{"order":`)},
			"typed":   {Type: "order.placed", Payload: []byte(`{"order":17}`)},
			"newer":   {Type: "order.placed@v2", Payload: []byte(`{}`)},
			"unknown": {Type: "order.lost", Payload: []byte(`{}`)},
			"ignored": {Type: "order.viewed", Payload: []byte(`{}`)},
		} {
			m.ID, m.Topic = id, "orders"
			publish(t, conn, m, id)
		}
		got := map[string]waybill.Reason{}
		for _, l := range w.waitLetters(t, deadletter.Filter{}, 4) {
			got[l.Message.ID] = l.Reason
			if strings.Contains(l.Error, "17") {
				t.Errorf("the error of %s quotes the payload: %s", l.Message.ID, l.Error)
			}
		}
		want := map[string]waybill.Reason{"broken": waybill.ReasonMalformed, "typed": waybill.ReasonMalformed, "newer": waybill.ReasonUnknownType, "unknown": waybill.ReasonUnknownType}
		if !maps.Equal(got, want) {
			t.Errorf("dead letters = %v, want %v", got, want)
		}
		w.waitEffects(t, "billing", "o1", 1)
	})
}

// TestHandlerErrorsKeepTheirKind: an EOF or a timeout of something else that the handler uses
// is not the database's, and counts.
//
//test:sessions
func TestHandlerErrorsKeepTheirKind(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{"EOF": io.ErrUnexpectedEOF, "network": &net.OpError{Op: "dial", Err: errors.New("refused")}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, b := plainWorld(t), membroker.New()
			sub := from(b, consumer.Subscription{Group: "billing", Topics: []string{"orders"}})
			w.startConsumer(t, sub, func(context.Context, pgx.Tx, *waybill.Message) error { return cause },
				consumer.Config{Retry: waybill.RetryPolicy{MaxRetries: 1, BaseDelay: 10 * time.Millisecond}})
			publish(t, b, waybill.Message{ID: "m", Topic: "orders"}, "m")
			if l := w.waitLetters(t, deadletter.Filter{}, 1)[0]; l.Attempts != 2 || l.Reason != waybill.ReasonExhausted {
				t.Errorf("dead letter = %+v, want it exhausted after 2 attempts", l)
			}
		})
	}
}

// TestHandlerTimeoutCounts also when it strikes within a statement, which costs the connection.
//
//test:sessions
func TestHandlerTimeoutCounts(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), membroker.New()
	sub := from(b, consumer.Subscription{Group: "billing", Topics: []string{"orders"}})
	w.startConsumer(t, sub, func(ctx context.Context, tx pgx.Tx, _ *waybill.Message) error {
		_, err := tx.Exec(ctx, "SELECT pg_sleep(60)")
		return fmt.Errorf("gave up: %v", err) // the cause is not wrapped
	}, consumer.Config{HandlerTimeout: 50 * time.Millisecond, Retry: waybill.RetryPolicy{MaxRetries: 1, BaseDelay: 10 * time.Millisecond}})
	publish(t, b, waybill.Message{ID: "m", Topic: "orders"}, "m")
	if l := w.waitLetters(t, deadletter.Filter{}, 1)[0]; l.Attempts != 2 {
		t.Errorf("dead letter = %+v, want it exhausted after 2 attempts", l)
	}
}

// TestUnfitMessagesAreKeptApart: ids that are equal as far as they can be stored are not one.
//
//test:sessions
func TestUnfitMessagesAreKeptApart(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), membroker.New()
	sub := from(b, consumer.Subscription{Group: "billing", Topics: []string{"orders"}})
	w.startConsumer(t, sub, w.effectHandler("billing"), consumer.Config{})
	for _, end := range []string{"1", "2", "2"} {
		id := strings.Repeat("x", waybill.MaxIDLen) + end
		if err := b.PublishRaw("orders", nil, map[string]string{"id": id, "type": "t", "source": "s", "specversion": "1.0"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	publish(t, b, waybill.Message{ID: "last", Topic: "orders"}, "last")
	w.waitEffects(t, "billing", "last", 1)
	w.waitLetters(t, deadletter.Filter{}, 2) // and the repeated one is no third
}
