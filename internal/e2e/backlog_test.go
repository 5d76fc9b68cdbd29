package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/pgstore"
)

// TestBacklogDrainsWithoutPolls (AS-10): a full batch is followed by the next at once. One batch
// for each poll would take more than twenty minutes with four batches at a time.
//
//test:sessions
//test:pooled
func TestBacklogDrainsWithoutPolls(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		const backlog = 10_000
		for i := range backlog / 1000 {
			w.enqueue(t, numbered(fmt.Sprintf("m%d-", i), "orders", 1000)...)
		}
		var sent atomic.Int64
		pub := &recorder{before: func(_ context.Context, msgs []contract.Outgoing) { sent.Add(int64(len(msgs))) }}
		w.startRelay(t, pub, sleepyConfig())
		within(t, 2*patience, "the backlog is published", func() bool { return sent.Load() >= backlog })
		eventually(t, "the backlog is settled", func() bool { return w.number(t, "SELECT count(*) FROM "+w.table("outbox")) == 0 })
		if n := len(pub.ids()); n != backlog {
			t.Errorf("%d messages were published, want %d", n, backlog)
		}
	})
}

// TestOrderingKeyBlocks (AS-12): A1 fails twice, A2 and A3 wait for it, B1 does not.
//
//test:sessions
//test:pooled
func TestOrderingKeyBlocks(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		healed := make(chan struct{})
		var failures atomic.Int64
		pub := &recorder{fail: func(m contract.Outgoing) error {
			if m.ID != "a1" {
				return nil
			}
			if failures.Add(1) == 1 {
				return errors.New("not now")
			}
			select {
			case <-healed:
				return nil
			default:
				return errors.New("still not")
			}
		}}
		keyed := func(id, key string) waybill.Message { return waybill.Message{ID: id, Topic: "orders", Key: key} }
		w.startRelay(t, pub, relay.Config{Mode: relay.Strict, Retry: waybill.RetryPolicy{MaxRetries: 1000, BaseDelay: 20 * time.Millisecond, MaxDelay: 20 * time.Millisecond}})
		w.enqueue(t, keyed("a1", "a"), keyed("a2", "a"), keyed("b1", "b"))
		eventually(t, "A1 has failed twice and B1 is published", func() bool { return failures.Load() >= 2 && pub.count("b1") == 1 })
		w.enqueue(t, keyed("a3", "a"), keyed("b2", "b"))
		eventually(t, "B2 is published while A waits", func() bool { return pub.count("b2") == 1 })
		w.waitStatus(t, "a2", inspect.Waiting)
		w.waitStatus(t, "a3", inspect.Waiting)
		if ids := pub.ids(); !slices.Equal(ids, []string{"b1", "b2"}) {
			t.Errorf("published %v while A1 failed, want B1 and B2 alone", ids)
		}
		close(healed)
		eventually(t, "all are published", func() bool { return len(pub.ids()) == 5 })
		if ids := pub.ids()[2:]; !slices.Equal(ids, []string{"a1", "a2", "a3"}) {
			t.Errorf("key A was published as %v, want A1, A2, A3", ids)
		}
	})
}

// elsewhere returns a store with connections of its own, as a relay in another process has.
func (w *world) elsewhere(t *testing.T) *pgstore.Store[pgx.Tx] {
	t.Helper()
	pool, err := pgxpool.New(context.WithoutCancel(t.Context()), w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store, err := pgstore.New(pool, pgstore.Config{Schema: w.schema})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// TestWakeUp (AS-19) commits with one store and publishes with another: the relay is notified by the
// database of each message.
func TestWakeUp(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	pub := &recorder{}
	r, err := relay.New(w.elsewhere(t), pub, quick(sleepyConfig()))
	if err != nil {
		t.Fatal(err)
	}
	run(t, t.Context(), r.Run)
	eventually(t, "the relay is at work", func() bool { return r.Status().Lanes == 64 })
	for i := range 40 {
		w.asleep(t)
		w.wantWoken(t, pub, fmt.Sprint("m", i), func(id string) { w.enqueue(t, waybill.Message{ID: id, Topic: "orders"}) })
	}
}

// TestLostNotification (AS-19) cuts the relay's connections, the listening one too, commits a
// message of which it can't be notified, and lets it connect again: the poll finds it.
func TestLostNotification(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	proxied, proxy := w.throughProxy(t)
	pub := &recorder{}
	r, err := relay.New(proxied, pub, quick(relay.Config{PollInterval: 500 * time.Millisecond}))
	if err != nil {
		t.Fatal(err)
	}
	run(t, t.Context(), r.Run)
	w.enqueue(t, waybill.Message{ID: "before", Topic: "orders"})
	eventually(t, "messages flow", func() bool { return pub.count("before") > 0 })
	proxy.Refuse(true)
	proxy.Cut()
	w.enqueue(t, waybill.Message{ID: "during", Topic: "orders"})
	proxy.Refuse(false)
	eventually(t, "the message is published nonetheless", func() bool { return pub.count("during") > 0 })
	w.enqueue(t, waybill.Message{ID: "after", Topic: "orders"})
	eventually(t, "messages flow again", func() bool { return pub.count("after") > 0 })
}
