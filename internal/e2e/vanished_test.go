package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/observe"
)

// TestVanishedReplica: the transactions of a replica whose host has vanished stay open, with the inbox
// rows of as many messages as the other one has handlers, and with the notes of their attempts. Copies
// of them hold up nothing, Health says why they are not handled, and they are when the server has
// noticed.
//
//test:sessions
func TestVanishedReplica(t *testing.T) {
	t.Parallel()
	const held, others = 8, 50
	w, b, ops := plainWorld(t), membroker.New(), newOpCounter()
	tx, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	msgs := make([]waybill.Message, held)
	for i := range msgs {
		msgs[i] = waybill.Message{ID: fmt.Sprint("held", i), Topic: "orders", Source: "shop"}
		msgs[i].Complete()
		rec := inbox.RecordOf("billing", &msgs[i])
		if err := w.store.SaveStarts(t.Context(), rec.Key, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := w.store.AddRecord(t.Context(), tx, rec); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tx.Exec(t.Context(), "DELETE FROM "+w.table("consumer_attempts")); err != nil {
		t.Fatal(err)
	}

	sub := from(b, consumer.Subscription{Group: "billing", Topics: []string{"orders"}})
	c, _ := w.startConsumer(t, sub, func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
		return w.addEffect(ctx, tx, "billing", m.ID)
	}, consumer.Config{Concurrency: held, HandlerTimeout: time.Second, StoreTimeout: 3 * time.Second, Observer: ops})
	for i := range msgs {
		publish(t, b, msgs[i], msgs[i].ID)
	}
	eventually(t, "each of them has been deferred", func() bool { return ops.count(observe.OpBusy) >= 2*held })
	for i := range others {
		id := fmt.Sprint("other", i)
		publish(t, b, waybill.Message{ID: id, Topic: "orders"}, id)
	}
	handled := func() int { return w.number(t, "SELECT count(*) FROM "+w.table("effects")) }
	eventually(t, "all others are handled", func() bool { return handled() == others })
	eventually(t, "Health says that messages are held", func() bool {
		err := c.Health()
		return err != nil && strings.Contains(err.Error(), "other transactions hold their inbox rows")
	})
	if n := ops.count(observe.OpRetry) + ops.count(observe.OpDead); n != 0 {
		t.Errorf("%d attempts are counted, want none", n)
	}
	if err := tx.Rollback(t.Context()); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		t.Fatal(err)
	}
	within(t, 3*patience, "all are handled", func() bool { return handled() == held+others })
	eventually(t, "the consumer is well", func() bool { return c.Health() == nil })
}
