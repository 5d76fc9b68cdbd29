package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/relay"
)

// failingConsumer runs a consumer of the topic "orders" whose handler always fails, and
// returns how often it was called.
func (w *world) failingConsumer(t *testing.T, b *membroker.Broker, cfg consumer.Config) *atomic.Int64 {
	t.Helper()
	var calls atomic.Int64
	sub := from(b, consumer.Subscription{Group: "billing", Topics: []string{"orders"}})
	w.startConsumer(t, sub, func(context.Context, pgx.Tx, *waybill.Message) error {
		calls.Add(1)
		return errors.New("still broken")
	}, cfg)
	return &calls
}

// TestAttemptsOfConsumers (AS-28): no retry and one retry, and immediate ones, which are part of
// their attempt.
//
//test:sessions
//test:pooled
func TestAttemptsOfConsumers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ retries, immediate, attempts, calls int }{
		{waybill.NoRetries, 0, 1, 1},
		{1, 0, 2, 2},
		{waybill.NoRetries, 2, 1, 3},
		{1, 2, 2, 6},
	} {
		t.Run(fmt.Sprintf("MaxRetries %d, ImmediateRetries %d", c.retries, c.immediate), func(t *testing.T) {
			t.Parallel()
			w, b := plainWorld(t), membroker.New()
			calls := w.failingConsumer(t, b, consumer.Config{
				ImmediateRetries: c.immediate,
				Retry:            waybill.RetryPolicy{MaxRetries: c.retries, BaseDelay: 20 * time.Millisecond},
			})
			publish(t, b, waybill.Message{ID: "m", Topic: "orders"}, "m")
			l := w.waitLetters(t, deadletter.Filter{}, 1)[0]
			if l.Attempts != c.attempts || calls.Load() != int64(c.calls) {
				t.Errorf("%d attempts and %d calls of the handler, want %d and %d", l.Attempts, calls.Load(), c.attempts, c.calls)
			}
		})
	}
}

// TestAttemptsRefused (AS-28): limits of the retry policy: none, one, a base above the maximum, attempt 60.
func TestAttemptsRefused(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), membroker.New()
	sub := from(b, consumer.Subscription{Group: "billing", Topics: []string{"orders"}})
	above := waybill.RetryPolicy{BaseDelay: 2 * time.Second, MaxDelay: time.Second}
	for _, c := range []struct {
		field string
		cfg   consumer.Config
	}{
		{"Retry.BaseDelay", consumer.Config{Retry: above}},
		{"Retry.MaxRetries", consumer.Config{Retry: waybill.RetryPolicy{MaxRetries: -2}}},
		{"consumer.Config.ImmediateRetries", consumer.Config{ImmediateRetries: -1}},
		{"consumer.Config.ImmediateRetries", consumer.Config{ImmediateRetries: 11}},
	} {
		_, err := consumer.New(sub, sub.of, w.store, w.effectHandler("billing"), c.cfg)
		var invalid *waybill.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != c.field {
			t.Errorf("%+v: %v, want an InvalidError of %s", c.cfg, err, c.field)
		}
	}
	if _, err := consumer.New(sub, sub.of, w.store, w.effectHandler("billing"), consumer.Config{ImmediateRetries: 10}); err != nil {
		t.Errorf("ImmediateRetries 10: %v, want it taken", err)
	}
	var invalid *waybill.InvalidError
	if _, err := relay.New(w.store, &recorder{}, relay.Config{Retry: above}); !errors.As(err, &invalid) || invalid.Field != "Retry.BaseDelay" {
		t.Errorf("relay with BaseDelay above MaxDelay: %v, want an InvalidError that names it", err)
	}
}

// TestAttempt60 (AS-28) finds a message that has failed 59 times: its 60th delay is the cap, as
// recorded, and not what doubling that often would give.
//
//test:sessions
//test:pooled
func TestAttempt60(t *testing.T) {
	t.Parallel()
	policy := waybill.RetryPolicy{MaxRetries: 1000, BaseDelay: time.Hour, MaxDelay: 2 * time.Hour, DisableJitter: true}
	for name, side := range failingSides {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, b := plainWorld(t), membroker.New()
			switch name {
			case "relay":
				w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
				w.startRelay(t, &recorder{fail: func(contract.Outgoing) error { return errors.New("broken") }}, relay.Config{Retry: policy})
			case "consumer":
				w.failingConsumer(t, b, consumer.Config{Retry: policy, AllowShortRetention: true})
				publish(t, b, waybill.Message{ID: "m", Topic: "orders"}, "m")
			}
			w.waitAttempt(t, side, 1)
			w.exec(t, "UPDATE "+w.table(side.table)+" SET attempts = 59, due_at = clock_timestamp()")
			if name == "consumer" { // the broker holds its copy back for an hour
				publish(t, b, waybill.Message{ID: "m", Topic: "orders"}, "m#copy")
			}
			a := w.waitAttempt(t, side, 60)
			if left := w.number(t, "SELECT extract(epoch FROM $1::timestamptz - clock_timestamp())::int", a.due); left > 7200 || left < 7100 {
				t.Errorf("attempt %d is followed by a delay of %d s, want two hours", a.count, left)
			}
		})
	}
}
