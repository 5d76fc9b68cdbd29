package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/service"
	"github.com/waybill-go/waybill/store/memstore"
	"github.com/waybill-go/waybill/store/redisstore"
)

// leaseTTL lets the lease of a killed or stopped holder go soon.
const leaseTTL = 1500 * time.Millisecond

// redisLeases returns a lease store of the story's own, and its prefix. Its keys go when the
// story ends.
func redisLeases(t *testing.T, url string) (*redisstore.Store, string) {
	t.Helper()
	prefix := fmt.Sprintf("e2e%08x:", rand.Uint32())
	store, client, err := openRedis(url, prefix)
	if err == nil && url == redisURL() {
		err = client.Ping(t.Context()).Err()
	}
	if err != nil {
		t.Fatalf("open Redis (start the servers with `make services`): %v", err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		_, direct, err := openRedis(redisURL(), prefix)
		if err != nil {
			t.Error(err)
			return
		}
		defer direct.Close()
		for keys := direct.Scan(context.Background(), 0, prefix+"*", 1000).Iterator(); keys.Next(context.Background()); {
			direct.Del(context.Background(), keys.Val())
		}
	})
	return store, prefix
}

// onLeaseStores runs a story once with each store that leases.
func onLeaseStores(t *testing.T, story func(t *testing.T, w *world, store lease.Store)) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		story(t, plainWorld(t), memstore.New())
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		w := plainWorld(t)
		story(t, w, w.store)
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		store, _ := redisLeases(t, redisURL())
		story(t, plainWorld(t), store)
	})
}

// startLeased runs a leased consumer until the story ends or the returned function is called.
// Its letters are kept in the world's database, where its effects are too, in transactions of
// their own.
func (w *world) startLeased(t *testing.T, s source, store lease.Store, h consumer.LeasedHandler, l consumer.Leases, cfg consumer.Config) (stop func()) {
	t.Helper()
	c, err := consumer.NewLeased(s, s.of, store, h, w.leases(l), quickConsumer(cfg))
	if err != nil {
		t.Fatal(err)
	}
	return run(t, t.Context(), c.Run)
}

func (w *world) leases(l consumer.Leases) consumer.Leases {
	if l.Bus == "" {
		l.Bus = "bus"
	}
	if l.TTL == 0 {
		l.TTL = leaseTTL
	}
	if !l.Letters.Set() {
		l.Letters = consumer.LettersIn(w.store)
	}
	return l
}

// leasedEffect writes one effect per message, in no transaction with anything else.
func (w *world) leasedEffect(name string) consumer.LeasedHandler {
	return func(ctx context.Context, m *waybill.Message) error {
		return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error { return w.addEffect(ctx, tx, name, m.ID) })
	}
}

// TestLeasedOncePerMessage sends every message three times to two groups with two replicas
// each, and two messages with one id from two sources, which are one message unless the source is in
// the key, and with one idempotency key of two types.
func TestLeasedOncePerMessage(t *testing.T) {
	onLeaseStores(t, func(t *testing.T, w *world, store lease.Store) {
		b, groups, ops := membroker.New(), []string{"billing", "shipping"}, newOpCounter()
		for _, name := range groups {
			for range 2 {
				sub := from(b, consumer.Subscription{Group: name, Topics: []string{"orders"}})
				w.startLeased(t, sub, store, w.leasedEffect(name), consumer.Leases{TTL: 3 * time.Second, SourceInKey: name == "shipping"}, consumer.Config{Observer: ops})
			}
		}
		const n = 40
		for range 3 {
			for _, m := range numbered("m", "orders", n) {
				publish(t, b, m, m.ID)
			}
		}
		publish(t, b, waybill.Message{ID: "one id", Source: "shop", Topic: "orders"}, "1")
		publish(t, b, waybill.Message{ID: "one id", Source: "app", Topic: "orders"}, "2")
		publish(t, b, waybill.Message{ID: "one key", Type: "placed", IdempotencyKey: "k", Topic: "orders"}, "3")
		publish(t, b, waybill.Message{ID: "one key", Type: "paid", IdempotencyKey: "k", Topic: "orders"}, "4")
		eventually(t, "every copy is skipped", func() bool { return ops.count(observe.OpDuplicate) == 2*2*n+1 })
		w.waitEffects(t, "billing", "one id", 1)
		w.waitEffects(t, "shipping", "one id", 2)
		for _, name := range groups {
			w.waitEffects(t, name, "one key", 2)
		}
		if got := w.number(t, "SELECT count(*) FROM "+w.table("effects")); got != 2*n+7 {
			t.Errorf("%d effects, want %d", got, 2*n+7)
		}
	})
}

// TestLeasedOnBrokers: a failing handler is tried again, and everything is acknowledged.
func TestLeasedOnBrokers(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		store, _ := redisLeases(t, redisURL())
		var tries sync.Map
		effect := w.leasedEffect("mailer")
		conn := b.connect(t)
		stop := w.startLeased(t, b.subscribe(t, conn, "mailer", "orders"), store, func(ctx context.Context, m *waybill.Message) error {
			if _, again := tries.LoadOrStore(m.ID, true); !again {
				return errors.New("first try")
			}
			return effect(ctx, m)
		}, consumer.Leases{}, consumer.Config{})
		for _, m := range numbered("m", "orders", 10) {
			publish(t, conn, m, m.ID)
		}
		for _, m := range numbered("m", "orders", 10) {
			w.waitEffects(t, "mailer", m.ID, 1)
		}
		stop()
		eventually(t, "all are acknowledged", func() bool { return b.unsettled(t, "mailer") == 0 })
	})
}

// TestLeasedLetters gives messages up, into a store and into a topic, where they are skipped
// when they come again. From the store they are run again on request.
func TestLeasedLetters(t *testing.T) {
	onLeaseStores(t, func(t *testing.T, w *world, store lease.Store) {
		b, ops, fixed := membroker.New(), newOpCounter(), make(chan struct{})
		effect := w.leasedEffect("mailer")
		handle := func(ctx context.Context, m *waybill.Message) error {
			select {
			case <-fixed:
				return effect(ctx, m)
			default:
			}
			if m.ID == "never" {
				return waybill.PermanentError(waybill.ReasonRejected, errors.New("no such address"))
			}
			return errors.New("no answer")
		}
		letters := b.Subscriber(consumer.Subscription{Group: "letters", Topics: []string{"mails.dead"}})
		for name, l := range map[string]consumer.Letters{"mailer": consumer.LettersIn(w.store), "relayer": service.LettersTo(b.Publisher(), "mails.dead")} {
			sub := from(b, consumer.Subscription{Group: name, Topics: []string{"mails"}})
			w.startLeased(t, sub, store, handle, consumer.Leases{Letters: l}, consumer.Config{
				Observer: ops, Retry: waybill.RetryPolicy{MaxRetries: 1, BaseDelay: 10 * time.Millisecond},
			})
		}
		reasons := map[string]string{"never": "rejected after 1", "mute": "exhausted after 2"}
		for range 2 {
			for id := range reasons {
				publish(t, b, waybill.Message{ID: id, Topic: "mails", Payload: []byte(`{"to":1}`)}, id)
			}
			eventually(t, "both are dead, for both", func() bool { return ops.count(observe.OpDead) == 4 })
		}
		eventually(t, "the copies are skipped", func() bool { return ops.count(observe.OpDuplicate) == 4 })
		for _, l := range w.waitLetters(t, deadletter.Filter{Consumer: "mailer"}, 2) {
			if got := fmt.Sprintf("%s after %d", l.Reason, l.Attempts); got != reasons[l.Message.ID] {
				t.Errorf("letter of %s: %s, want %s", l.Message.ID, got, reasons[l.Message.ID])
			}
		}
		checkTopicLetters(t, letters, reasons)
		close(fixed)
		for _, l := range w.waitLetters(t, deadletter.Filter{Consumer: "mailer"}, 2) {
			if _, err := w.store.RequeueDeadLetter(t.Context(), l.Number, deadletter.Act{By: "test"}); err != nil {
				t.Fatal(err)
			}
			w.waitEffects(t, "mailer", l.Message.ID, 1)
		}
		w.waitLetters(t, deadletter.Filter{}, 0)
	})
}

// checkTopicLetters reads the letters that were published, one of each message.
func checkTopicLetters(t *testing.T, from contract.Subscriber, reasons map[string]string) {
	t.Helper()
	got, all := make(chan *waybill.Message, 10), map[string]bool{}
	run(t, t.Context(), func(ctx context.Context) error {
		return from.Subscribe(ctx, 10, func(d contract.Delivery) {
			if m, err := d.Message(); err == nil {
				got <- m
			}
			_ = d.Ack(ctx)
		})
	})
	for range reasons {
		m := <-got
		h := m.Headers
		is := h[deadletter.HeaderReason] + " after " + h[deadletter.HeaderAttempts]
		if is != reasons[m.ID] || string(m.Payload) != `{"to":1}` || h[deadletter.HeaderConsumer] != "relayer" || h[deadletter.HeaderTopic] != "mails" || h[deadletter.HeaderError] == "" || all[m.ID] {
			t.Errorf("letter on the topic = %+v, want %s", m, reasons[m.ID])
		}
		all[m.ID] = true
	}
}

// TestLeasedRetryIsNotEarly stops a consumer in the middle of a retry delay, and gives the message
// to another one at once: the attempt is begun when it is due, and counts on.
func TestLeasedRetryIsNotEarly(t *testing.T) {
	onLeaseStores(t, func(t *testing.T, w *world, store lease.Store) {
		const delay = 2 * time.Second
		cfg := consumer.Config{Retry: waybill.RetryPolicy{BaseDelay: delay, DisableJitter: true}}
		// Each has a broker of its own, so that the second knows nothing of the first one's retry.
		start := func(h consumer.LeasedHandler, ops *opCounter) (stop func()) {
			b, cfg := membroker.New(), cfg
			cfg.Observer = ops
			sub := from(b, consumer.Subscription{Group: "mailer", Topics: []string{"orders"}})
			stop = w.startLeased(t, sub, store, h, consumer.Leases{}, cfg)
			publish(t, b, waybill.Message{ID: "m", Topic: "orders"}, "m")
			return stop
		}
		var failed time.Time
		ops := newOpCounter()
		stop := start(func(context.Context, *waybill.Message) error {
			failed = time.Now()
			return errors.New("not yet")
		}, ops)
		eventually(t, "it is to be tried again", func() bool { return ops.count(observe.OpRetry) == 1 })
		stop()
		began, ops := make(chan time.Time, 1), newOpCounter()
		start(func(context.Context, *waybill.Message) error {
			began <- time.Now()
			return nil
		}, ops)
		if waited := (<-began).Sub(failed); waited < delay {
			t.Errorf("the next attempt was begun after %v, want it after %v", waited, delay)
		}
		if ops.count(observe.OpBusy) == 0 {
			t.Error("the message was never deferred, want it to come early")
		}
	})
}

// TestLeasedOrderByKey has the first message of each key fail twice: what follows it waits.
func TestLeasedOrderByKey(t *testing.T) {
	onLeaseStores(t, func(t *testing.T, w *world, store lease.Store) {
		b := membroker.New()
		var mu sync.Mutex
		handled, tries := map[string][]string{}, map[string]int{}
		sub := from(b, consumer.Subscription{Group: "mailer", Topics: []string{"orders"}})
		w.startLeased(t, sub, store, func(_ context.Context, m *waybill.Message) error {
			mu.Lock()
			defer mu.Unlock()
			if tries[m.ID]++; m.Subject == "first" && tries[m.ID] < 3 {
				return errors.New("not yet")
			}
			handled[m.Key] = append(handled[m.Key], m.ID)
			return nil
		}, consumer.Leases{}, consumer.Config{Order: consumer.OrderByKey, Retry: waybill.RetryPolicy{BaseDelay: 20 * time.Millisecond}})
		want := map[string][]string{}
		for i := range 10 {
			for _, key := range []string{"a", "b", "c"} {
				m := waybill.Message{ID: fmt.Sprintf("%s%d", key, i), Topic: "orders", Key: key}
				if i == 0 {
					m.Subject = "first"
				}
				publish(t, b, m, m.ID)
				want[key] = append(want[key], m.ID)
			}
		}
		eventually(t, "all are handled", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(handled["a"])+len(handled["b"])+len(handled["c"]) == 30
		})
		for key, ids := range want {
			if !slices.Equal(handled[key], ids) {
				t.Errorf("key %s was handled as %v, want %v", key, handled[key], ids)
			}
		}
	})
}

// TestLeasedInService runs a leased consumer and a transactional one side by side.
func TestLeasedInService(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), newBroker(t, "nats")
	store, _ := redisLeases(t, redisURL())
	svc, err := service.New(w.store, b.connect(t), service.Config{Source: "shop", Relay: quick(childLease), Observer: quiet, Consumer: consumer.Config{OnConflict: consumer.ConflictSkip, RequeueInterval: 50 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	orders := func(group string) consumer.Subscription {
		return consumer.Subscription{Group: b.group(group), Topics: []string{"orders"}}
	}
	if err := svc.Consume(orders("billing"), w.effectHandler("billing"), consumer.Config{}); err != nil {
		t.Fatal(err)
	}
	effect := w.leasedEffect("mailer")
	if err := svc.ConsumeLeased(orders("mailer"), store, func(ctx context.Context, m *waybill.Message) error {
		if m.ID == "m7" {
			return waybill.PermanentError(waybill.ReasonRejected, errors.New("never"))
		}
		return effect(ctx, m)
	}, consumer.Leases{Bus: "nats"}, consumer.Config{}); err != nil {
		t.Fatal(err)
	}
	run(t, t.Context(), svc.Run)
	w.enqueue(t, numbered("m", "orders", 20)...)
	eventually(t, "all are handled", func() bool {
		return w.number(t, "SELECT count(*) FROM "+w.table("effects")) == 39
	})
	if l := w.waitLetters(t, deadletter.Filter{}, 1)[0]; l.Consumer != b.group("mailer") || l.Message.ID != "m7" {
		t.Errorf("letter = %+v, want m7 of mailer", l)
	}
	eventually(t, "the service is well", func() bool { return svc.Health() == nil })
}
