package e2e

import (
	"context"
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

// Options without effect are worse than none: each has a test here, or is named in the list
// with the one that it has elsewhere.
//
//	all of relay.Config            TestRelayOptions
//	Retry.MaxRetries               TestRetryBoundaries
//	Retry.BaseDelay, MaxDelay      TestDelaysAreKeptAndPersisted, TestRetryPolicy_Delays
//	Retry.DisableJitter            TestRetryPolicy_Jitter
//	relay.Mode                     TestStrictKeepsOneOfAKeyInFlight
//	relay.Order, TopicOrder        TestOrderPolicies
//	relay.MaxParkedMessages, Keys  TestRelayOptions
//	relay.PublishTimeout           TestNotPublishedWithoutProof
//	relay.ShutdownGrace            TestCleanShutdown
//	relay.Retention                TestSameIDLater, storetest "published messages and unique ids go …"
//	relay.DisableDeadLetters       TestFailedWithDeadLettersDisabled
//	relay.Followers                TestFanout, TestLocalHandlers
//	outbox.Unique, Source          TestSameIDLater, TestPsqlToNATS
//	consumer.Order                 TestOrderByKey
//	consumer.ImmediateRetries      TestAttemptsOfConsumers
//	consumer.HandlerTimeout        TestHandlerTimeoutCounts
//	consumer.MessageKey            TestMessageKeyForForeignProducers
//	consumer.Prefetch              brokertest
//	pgstore.Schema, TablePrefix    TestUpgrade

// peak counts how many are in flight at a time.
type peak struct{ now, most atomic.Int64 }

func (p *peak) enter() {
	n := p.now.Add(1)
	for m := p.most.Load(); n > m && !p.most.CompareAndSwap(m, n); m = p.most.Load() {
	}
}

func (p *peak) leave() { p.now.Add(-1) }

func optionParallelism(t *testing.T) {
	t.Parallel()
	for _, parallelism := range []int{1, 4} {
		w, batches := plainWorld(t), &peak{}
		gate := make(chan struct{})
		pub := &recorder{before: func(ctx context.Context, _ []contract.Outgoing) {
			batches.enter()
			defer batches.leave()
			select {
			case <-gate:
			case <-ctx.Done():
			}
		}}
		w.enqueue(t, numbered("m", "orders", 500)...)
		w.startRelay(t, pub, relay.Config{Parallelism: parallelism, BatchSize: 10})
		eventually(t, "as many batches as may be are in flight", func() bool { return batches.now.Load() == int64(parallelism) })
		close(gate)
		eventually(t, "all are published", func() bool { return len(pub.ids()) == 500 })
		if most := batches.most.Load(); most != int64(parallelism) {
			t.Errorf("Parallelism %d: %d batches were in flight", parallelism, most)
		}
	}
}

func optionBatchSize(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 30} {
		w := plainWorld(t)
		var most atomic.Int64
		pub := &recorder{before: func(_ context.Context, msgs []contract.Outgoing) {
			most.Store(max(most.Load(), int64(len(msgs))))
		}}
		w.enqueue(t, numbered("m", "orders", 100)...)
		w.startRelay(t, pub, relay.Config{BatchSize: size, Parallelism: 1})
		eventually(t, "all are published", func() bool { return len(pub.ids()) == 100 })
		if most.Load() != int64(size) {
			t.Errorf("BatchSize %d: the largest batch had %d messages", size, most.Load())
		}
	}
}

// optionPollInterval inserts without a notification, so that no relay is woken. What the
// relay was notified of before may still make it look once or twice more; a poll would find every
// message.
func optionPollInterval(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sessions[0]) // a transaction that stays open would keep the table as it is
	pub := &recorder{}
	_, stop := w.startRelay(t, pub, relay.Config{PollInterval: time.Minute})
	w.asleep(t)
	w.enqueue(t, waybill.Message{ID: "told", Topic: "orders"})
	eventually(t, "what it is notified of is published", func() bool { return pub.count("told") == 1 })
	ways := map[string]func(tx pgx.Tx, id string) error{
		"a message": func(tx pgx.Tx, id string) error {
			_, err := w.writer.Enqueue(t.Context(), tx, waybill.Message{ID: id, Topic: "orders"})
			return err
		},
		"a message whose id is made": func(tx pgx.Tx, id string) error {
			_, err := w.writer.Enqueue(t.Context(), tx, waybill.Message{Topic: "orders", Type: id})
			return err
		},
		"a row": func(tx pgx.Tx, id string) error {
			_, err := tx.Exec(t.Context(), "INSERT INTO "+w.table("outbox")+" (id, topic) VALUES ($1, 'orders')", id)
			return err
		},
	}
	untold := 0
	for name, enqueue := range ways {
		rounds := 0
		insert := func() time.Time {
			untold++
			w.inTx(t, func(tx pgx.Tx) error {
				if _, err := tx.Exec(t.Context(), "SET LOCAL waybill.notify = 'off'"); err != nil {
					return err
				}
				return enqueue(tx, fmt.Sprint("untold-", untold))
			})
			return time.Now()
		}
		stays := func() bool { return w.number(t, "SELECT count(*) FROM "+w.table("outbox")) > 0 }
		inserted := insert()
		eventually(t, name+" of which the relay was not told stays for half a second", func() bool {
			if !stays() && rounds < 10 {
				rounds++
				inserted = insert()
			}
			return stays() && time.Since(inserted) > 500*time.Millisecond
		})
		w.exec(t, "DELETE FROM "+w.table("outbox"))
	}
	w.exec(t, "WITH s AS MATERIALIZED (SELECT set_config('waybill.notify', 'off', true)) INSERT INTO "+w.table("outbox")+" (id, topic) SELECT 'found', 'orders' FROM s")
	stop()
	w.startRelay(t, pub, relay.Config{PollInterval: 20 * time.Millisecond})
	eventually(t, "the poll finds it", func() bool { return pub.count("found") == 1 })
}

// TestOption_Lease: a relay that has gone keeps its lanes for the lease, and no longer.
func TestOption_Lease(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	w := plainWorld(t)
	if _, err := w.store.RenewLanes(t.Context(), contract.LeaseRequest{Node: "gone", Join: true, TTL: lease}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	w.countRenewals(t)
	w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
	renewals := 0
	pub := &recorder{before: func(context.Context, []contract.Outgoing) { renewals = max(renewals, w.renewals(t)) }}
	cfg := quick(relay.Config{})
	w.startRelay(t, pub, cfg)
	eventually(t, "the lanes are taken over", func() bool { return pub.count("m") == 1 })
	if took := time.Since(began); took < lease-50*time.Millisecond {
		t.Errorf("taken over after %v, want after the lease of %v", took, lease)
	}
	// It renews its own lease eight times as often while it has no lanes, and takes them when the
	// lease of the other one has ended.
	if most := int(8*lease/cfg.RenewInterval) + 16; renewals > most {
		t.Errorf("taken over after %d renewals, want at most %d", renewals, most)
	}
}

func TestOption_Concurrency(t *testing.T) {
	t.Parallel()
	for _, concurrency := range []int{1, 5} {
		w, b, handlers := plainWorld(t), membroker.New(), &peak{}
		gate := make(chan struct{})
		sub := from(b, consumer.Subscription{Group: "billing", Topics: []string{"orders"}})
		w.startConsumer(t, sub, func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
			handlers.enter()
			defer handlers.leave()
			select {
			case <-gate:
			case <-ctx.Done():
			}
			return w.addEffect(ctx, tx, "billing", m.ID)
		}, consumer.Config{Concurrency: concurrency})
		for i := range 20 {
			publish(t, b, waybill.Message{ID: fmt.Sprintf("m%d", i), Topic: "orders"}, "")
		}
		eventually(t, "as many handlers as may be are running", func() bool { return handlers.now.Load() == int64(concurrency) })
		close(gate)
		eventually(t, "all are handled", func() bool { return w.number(t, "SELECT count(*) FROM "+w.table("effects")) == 20 })
		if most := handlers.most.Load(); most != int64(concurrency) {
			t.Errorf("Concurrency %d: %d handlers ran at a time", concurrency, most)
		}
	}
}

// TestOption_ConsumerDeadLettersDisabled: the message ends as failed, kept and visible.
func TestOption_ConsumerDeadLettersDisabled(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), membroker.New()
	sub := from(b, consumer.Subscription{Group: "billing", Topics: []string{"orders"}})
	w.startConsumer(t, sub, func(context.Context, pgx.Tx, *waybill.Message) error { return fmt.Errorf("broken") },
		consumer.Config{DisableDeadLetters: true, Retry: waybill.RetryPolicy{MaxRetries: waybill.NoRetries}})
	publish(t, b, waybill.Message{ID: "m", Topic: "orders"}, "m")
	if l := w.waitLetters(t, deadletter.Filter{}, 1)[0]; !l.Failed || l.Message.ID != "m" {
		t.Errorf("letter = %+v, want m marked as failed", l)
	}
}
