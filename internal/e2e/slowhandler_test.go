package e2e

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/store/pgstore"
)

// TestSlowHandlerAndItsDuplicate (AS-37) delivers a message a second time while its handler runs.
// The gate gives up after 100 ms; it is 1 s in the scenario. The second delivery is deferred,
// without an attempt, and skipped when it comes again after the first has committed.
//
//test:sessions
//test:pooled
func TestSlowHandlerAndItsDuplicate(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		store, err := pgstore.New(w.pool, pgstore.Config{Schema: w.schema, GateTimeout: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		s, ops := scriptOf(1, "a"), newOpCounter()
		s.list = append(s.list, s.list[0])
		var ran atomic.Int32
		from := toBilling(s)
		c, err := consumer.New(from, from.of, store, func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
			ran.Add(1)
			eventually(t, "the duplicate is deferred", func() bool { return ops.count(observe.OpBusy) >= 1 })
			if s.acks(m.ID) > 0 {
				t.Error("the duplicate was acknowledged before the first had committed")
			}
			return w.addEffect(ctx, tx, "billing", m.ID)
		}, quickConsumer(consumer.Config{Observer: ops, Retry: waybill.RetryPolicy{BaseDelay: time.Hour, MaxDelay: time.Hour}}))
		if err != nil {
			t.Fatal(err)
		}
		run(t, t.Context(), c.Run)
		eventually(t, "both deliveries are acknowledged", s.done)
		if ran.Load() != 1 || w.effects(t, "billing", "a0") != 1 {
			t.Errorf("the handler ran %d times and has %d effects, want 1 and 1", ran.Load(), w.effects(t, "billing", "a0"))
		}
		if n := ops.count(observe.OpDuplicate); n != 1 {
			t.Errorf("%d deliveries were skipped, want 1", n)
		}
		if n := ops.count(observe.OpRetry) + ops.count(observe.OpPause) + ops.count(observe.OpDead) + w.number(t, "SELECT count(*) FROM "+w.table("consumer_attempts")); n != 0 {
			t.Errorf("the delivery that was deferred left %d traces of an attempt", n)
		}
	})
}
