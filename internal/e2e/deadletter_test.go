package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/backoff"
	"github.com/waybill-go/waybill/relay"
)

// TestOneDeadLetterAfterTheLimit (AS-23): after the last attempt there is one dead letter with all that is known;
// pending, published and dead add up.
//
//test:sessions
//test:pooled
func TestOneDeadLetterAfterTheLimit(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		pub := &recorder{fail: func(m contract.Outgoing) error {
			if m.ID == "bad" {
				return errors.New("still broken")
			}
			return nil
		}}
		bad := waybill.Message{ID: "bad", Type: "order.placed", Topic: "orders", Key: "k", CorrelationID: "flow", Payload: []byte(`{"n":1}`)}
		w.enqueue(t, append(numbered("m", "orders", 20), bad)...)
		w.startRelay(t, pub, relay.Config{Retry: waybill.RetryPolicy{MaxRetries: 3, BaseDelay: 20 * time.Millisecond}})
		w.waitStatus(t, "bad", inspect.Dead)
		eventually(t, "the others are published", func() bool { return len(pub.ids()) == 20 })
		letters, err := w.store.DeadLetters(t.Context(), deadletter.Filter{})
		if err != nil || len(letters) != 1 {
			t.Fatalf("DeadLetters() = %v, %v; want one", letters, err)
		}
		l, err := w.store.DeadLetter(t.Context(), letters[0].Number)
		if err != nil {
			t.Fatal(err)
		}
		if l.Origin != deadletter.FromRelay || l.Reason != waybill.ReasonExhausted || l.Error != "still broken" || l.Attempts != 4 ||
			l.Message.ID != "bad" || l.Message.Type != "order.placed" || string(l.Message.Payload) != `{"n":1}` ||
			l.Message.CorrelationID != "flow" || l.Message.Source != "shop" || l.FirstFailed.IsZero() || !l.LastFailed.After(l.FirstFailed) {
			t.Errorf("dead letter = %+v, want everything of the message and its failures", l)
		}
		w.everyIDOnce(t, 21)
	})
}

// TestFailedWithDeadLettersDisabled is the other end of an exhausted message.
//
//test:sessions
func TestFailedWithDeadLettersDisabled(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
	pub := &recorder{fail: func(contract.Outgoing) error { return errors.New("broken") }}
	w.startRelay(t, pub, relay.Config{DisableDeadLetters: true, Retry: waybill.RetryPolicy{MaxRetries: waybill.NoRetries}})
	w.waitStatus(t, "m", inspect.Failed)
	stats, err := w.store.OutboxStats(t.Context())
	if err != nil || len(stats) != 1 || stats[0].Status != inspect.Failed || stats[0].Count != 1 {
		t.Errorf("OutboxStats() = %v, %v; want one Failed", stats, err)
	}
}

// TestPermanentErrorAtOnce (AS-26): a permanent error, and a message that ends its process, becomes a dead letter
// without further attempts.
//
//test:sessions
//test:pooled
func TestPermanentErrorAtOnce(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		conn := b.connect(t)
		sub := b.subscribe(t, conn, "billing", "orders")
		w.startRelay(t, conn.Publisher(), relay.Config{})
		w.startConsumer(t, sub, func(_ context.Context, _ pgx.Tx, m *waybill.Message) error {
			return waybill.PermanentError(waybill.ReasonRejected, errors.New("schema is wrong"))
		}, consumer.Config{})
		w.enqueue(t, waybill.Message{ID: "lost", To: b.Name + "-nowhere"}, waybill.Message{ID: "poison", Topic: "orders"})
		if b.Kind == "rabbit" { // JetStream keeps what nobody listens for
			w.waitStatus(t, "lost", inspect.Dead)
		}
		letters := w.waitLetters(t, deadletter.Filter{Origin: deadletter.FromConsumer}, 1)
		if l := letters[0]; l.Message.ID != "poison" || l.Attempts != 1 || l.Consumer != b.group("billing") || l.Reason != waybill.ReasonRejected {
			t.Errorf("dead letter = %+v, want poison, rejected at its first attempt", l)
		}
	})
}

// waitLetters waits for n dead letters.
func (w *world) waitLetters(t *testing.T, f deadletter.Filter, n int) (letters []deadletter.Letter) {
	t.Helper()
	eventually(t, fmt.Sprintf("there are %d dead letters", n), func() bool {
		var err error
		letters, err = w.store.DeadLetters(context.Background(), f)
		return err == nil && len(letters) == n
	})
	return letters
}

// TestRetryBoundaries (AS-28): limits of the retry policy: none, one, a base above the maximum, attempt 60.
//
//test:sessions
//test:pooled
func TestRetryBoundaries(t *testing.T) {
	t.Parallel()
	for _, retries := range []int{waybill.NoRetries, 1} {
		t.Run(fmt.Sprintf("MaxRetries %d", retries), func(t *testing.T) {
			t.Parallel()
			w := plainWorld(t)
			w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
			pub := &recorder{fail: func(contract.Outgoing) error { return errors.New("broken") }}
			w.startRelay(t, pub, relay.Config{Retry: waybill.RetryPolicy{MaxRetries: retries, BaseDelay: 20 * time.Millisecond}})
			w.waitStatus(t, "m", inspect.Dead)
			if got, want := w.state(t, "m").Attempts, max(retries, 0)+1; got != want {
				t.Errorf("%d attempts, want %d", got, want)
			}
		})
	}
	var invalid *waybill.InvalidError
	_, err := relay.New(plainWorld(t).store, &recorder{}, relay.Config{Retry: waybill.RetryPolicy{BaseDelay: 2 * time.Second, MaxDelay: time.Second}})
	if !errors.As(err, &invalid) || invalid.Field != "Retry.BaseDelay" {
		t.Errorf("BaseDelay above MaxDelay: %v, want an InvalidError that names it", err)
	}
	p, err := backoff.WithDefaults(waybill.RetryPolicy{DisableJitter: true})
	if err != nil || backoff.Delay(p, 60) != time.Minute || backoff.Delay(p, 1000) != time.Minute {
		t.Errorf("Delay(60) = %v, want the cap, without overflow", backoff.Delay(p, 60))
	}
}

// TestMalformedRowDoesNotStopItsLane inserts, as psql would, a row that does not decode.
//
//test:sessions
func TestMalformedRowDoesNotStopItsLane(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		w.exec(t, "INSERT INTO "+w.table("outbox")+` (id, topic, key, headers, payload) VALUES ('bad', 'orders', 'k', '[1,2]', '{}')`)
		w.exec(t, "INSERT INTO "+w.table("outbox")+` (id, topic, key, subject, payload) VALUES ('long', 'orders', 'k', repeat('x', 300), '{}')`)
		w.enqueue(t, waybill.Message{ID: "m1", Topic: "orders", Key: "k"})
		pub := &recorder{}
		w.startRelay(t, pub, relay.Config{})
		eventually(t, "the next of the lane is published", func() bool { return pub.count("m1") == 1 })
		for _, l := range w.waitLetters(t, deadletter.Filter{}, 2) {
			if l.Reason != waybill.ReasonMalformed {
				t.Errorf("%s has the reason %s, want malformed", l.Message.ID, l.Reason)
			}
		}
	})
}
