package e2e

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/deadletter"
)

// holdLetters keeps everybody from writing dead letters until the returned function is called.
// A consumer may still look for requeued ones.
func (w *world) holdLetters(t *testing.T) (release func()) {
	t.Helper()
	lock, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(t.Context(), "LOCK TABLE "+w.table("dead_letters")+" IN SHARE ROW EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := lock.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// waitForWriter waits until somebody wants to write a dead letter.
func (w *world) waitForWriter(t *testing.T) {
	t.Helper()
	eventually(t, "somebody waits for the lock", func() bool {
		return w.number(t, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = $1::regclass", w.table("dead_letters")) > 0
	})
}

// TestConsumerEndsWhileBurying (AS-24) kills a consumer, or cuts it off from the store, between
// the inbox record that says dead and the dead letter: neither is kept, and both are there
// once afterwards.
//
//test:sessions
//test:pooled
func TestConsumerEndsWhileBurying(t *testing.T) {
	t.Parallel()
	for _, kill := range []bool{true, false} {
		t.Run(map[bool]string{true: "killed", false: "cut off"}[kill], func(t *testing.T) {
			t.Parallel()
			w, b := plainWorld(t), newBroker(t, "rabbit")
			conn := b.connect(t)
			sub := b.subscribe(t, conn, "billing", "orders")
			release := w.holdLetters(t)
			proxied, proxy := w.behindProxy(t)
			first := proxied.startChild(t, child{Role: "consumer", Broker: b, Fail: true})
			publish(t, conn, waybill.Message{ID: "m", Topic: "orders"}, "m")
			w.waitForWriter(t)
			if kill {
				first.kill()
			} else {
				proxy.Cut()
			}
			if n := w.number(t, "SELECT count(*) FROM "+w.table("inbox")); n != 0 {
				t.Errorf("%d inbox records before the letter, want none", n)
			}
			release()
			if kill {
				w.startConsumer(t, sub, func(context.Context, pgx.Tx, *waybill.Message) error {
					return waybill.PermanentError(waybill.ReasonRejected, context.DeadlineExceeded)
				}, consumer.Config{})
			}
			l := w.waitLetters(t, deadletter.Filter{}, 1)[0]
			if l.Message.ID != "m" || l.Reason != waybill.ReasonRejected {
				t.Errorf("letter = %+v, want m, rejected", l)
			}
			if n := w.number(t, "SELECT count(*) FROM "+w.table("inbox")+" WHERE dead"); n != 1 {
				t.Errorf("%d inbox records that say dead, want 1", n)
			}
		})
	}
}
