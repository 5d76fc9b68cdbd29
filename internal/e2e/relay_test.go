package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/faultproxy"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/pgstore"
)

func TestAS07EightRelays(t *testing.T) {
	t.Parallel()
	const messages, relays = 10_000, 8
	w, settings := plainWorld(t), newBroker(t, "rabbit")
	b := settings.connect(t)
	sub := settings.subscribe(t, b, "audit", "orders")
	for i := range messages / 1000 {
		msgs := numbered(fmt.Sprintf("m%d-", i), "orders", 1000)
		for j := range msgs {
			msgs[j].Key = fmt.Sprintf("k%d", j%100)
		}
		w.enqueue(t, msgs...)
	}
	var shares [relays]atomic.Int64
	for i := range relays {
		pub := countingPublisher{settings.connect(t).Publisher(), &shares[i]}
		w.startRelay(t, pub, relay.Config{Node: fmt.Sprintf("relay-%d", i)})
	}
	eventually(t, "everything is settled", func() bool {
		return w.number(t, "SELECT count(*) FROM "+w.table("outbox")) == 0
	})
	if n := settings.stored(t, "audit"); n != messages {
		t.Errorf("the broker holds %d messages, want %d: each exactly once", n, messages)
	}
	seen := receive(t, sub, messages)
	for id, n := range seen {
		if n != 1 {
			t.Errorf("message %s was published %d times", id, n)
		}
	}
	working := 0
	for i := range shares {
		if shares[i].Load() > 0 {
			working++
		}
	}
	if working < 2 {
		t.Errorf("%d of %d relays published, want the work shared", working, relays)
	}
}

type countingPublisher struct {
	relay.Publisher
	n *atomic.Int64
}

func (p countingPublisher) Send(ctx context.Context, msgs []relay.Outgoing) func() []error {
	p.n.Add(int64(len(msgs)))
	return p.Publisher.Send(ctx, msgs)
}

// receive takes n messages from a subscriber and counts them by id.
func receive(t *testing.T, sub consumer.Subscriber, n int) map[string]int {
	t.Helper()
	var mu sync.Mutex
	seen, total := map[string]int{}, 0
	stop := run(t, t.Context(), func(ctx context.Context) error {
		return sub.Subscribe(ctx, 1000, func(d consumer.Delivery) {
			m, err := d.Message()
			if err != nil {
				t.Errorf("delivery: %v", err)
			}
			mu.Lock()
			seen[m.ID]++
			total++
			mu.Unlock()
			if err := d.Ack(t.Context()); err != nil {
				t.Errorf("ack: %v", err)
			}
		})
	})
	eventually(t, fmt.Sprintf("%d messages are received", n), func() bool {
		mu.Lock()
		defer mu.Unlock()
		return total >= n
	})
	stop()
	return seen
}

func TestAS11OnePoisonInAHundred(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		var sends atomic.Int64
		pub := &recorder{
			before: func(_ context.Context, msgs []relay.Outgoing) {
				if len(msgs) > 1 {
					sends.Add(1)
				}
			},
			fail: func(m relay.Outgoing) error {
				if m.ID == "m42" {
					return errors.New("this one fails")
				}
				return nil
			},
		}
		w.enqueue(t, numbered("m", "orders", 100)...)
		w.startRelay(t, pub, relay.Config{Retry: waybill.RetryPolicy{MaxRetries: 2, BaseDelay: 50 * time.Millisecond}})
		w.waitStatus(t, "m42", outbox.Dead)
		if n := len(pub.ids()); n != 99 {
			t.Errorf("%d published, want the 99 others", n)
		}
		if s := w.state(t, "m42"); s.Attempts != 3 {
			t.Errorf("the poison had %d attempts, want 3", s.Attempts)
		}
		w.everyIDOnce(t, 100)
	})
}

func TestAS14DatabaseAway(t *testing.T) {
	t.Parallel()
	const away = 3 * time.Second // 30 s in the scenario, scaled 1:10 with lease and poll
	w := plainWorld(t)
	proxied, proxy := w.throughProxy(t)
	pub := &recorder{}
	r, err := relay.New(proxied, pub, quick(relay.Config{LeaseTTL: time.Second, RenewInterval: 100 * time.Millisecond, PublishTimeout: 500 * time.Millisecond}))
	if err != nil {
		t.Fatal(err)
	}
	run(t, t.Context(), r.Run)
	w.enqueue(t, numbered("before", "orders", 10)...)
	eventually(t, "messages flow", func() bool { return len(pub.ids()) == 10 })
	if err := r.Health(); err != nil {
		t.Errorf("Health() = %v before the outage", err)
	}
	gone := time.Now()
	proxy.Refuse(true)
	proxy.Cut()
	w.enqueue(t, numbered("during", "orders", 10)...)
	eventually(t, "the relay says that it is ill", func() bool { return r.Health() != nil })
	eventually(t, "the outage has lasted", func() bool { return time.Since(gone) > away })
	if n := len(pub.ids()); n != 10 {
		t.Errorf("%d published while the database was away, want 10", n)
	}
	proxy.Refuse(false)
	eventually(t, "messages flow again", func() bool { return len(pub.ids()) == 20 })
	eventually(t, "the relay is well again", func() bool { return r.Health() == nil })
}

// throughProxy returns a second store whose connections pass a proxy.
func (w *world) throughProxy(t *testing.T) (*pgstore.Store[pgx.Tx], *faultproxy.Proxy) {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := faultproxy.New(context.WithoutCancel(t.Context()), fmt.Sprintf("%s:%d", cfg.ConnConfig.Host, cfg.ConnConfig.Port))
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := strings.Cut(proxy.Addr(), ":")
	cfg.ConnConfig.Host = host
	if _, err := fmt.Sscan(port, &cfg.ConnConfig.Port); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(t.Context()), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close(); proxy.Close() })
	store, err := pgstore.New(pool, pgstore.Config{Schema: w.schema})
	if err != nil {
		t.Fatal(err)
	}
	return store, proxy
}

func TestAS14PanickingPublisher(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	pub := &recorder{before: func(_ context.Context, msgs []relay.Outgoing) {
		for _, m := range msgs {
			if m.ID == "m3" {
				panic("boom")
			}
		}
	}}
	w.enqueue(t, numbered("m", "orders", 10)...)
	r, _ := w.startRelay(t, pub, relay.Config{})
	w.waitStatus(t, "m3", outbox.Dead)
	eventually(t, "the nine others are published", func() bool { return len(pub.ids()) == 9 })
	letters, err := w.store.DeadLetters(t.Context(), deadletter.Filter{})
	if err != nil || len(letters) != 1 || letters[0].Reason != waybill.ReasonPoison {
		t.Errorf("dead letters = %v, %v; want the one that panics, as poison", letters, err)
	}
	if err := r.Health(); err != nil {
		t.Errorf("Health() = %v, want the relay alive", err)
	}
}

func TestAS16NotPublishedWithoutProof(t *testing.T) {
	t.Parallel()
	t.Run("no queue is bound", func(t *testing.T) {
		t.Parallel()
		w, b := plainWorld(t), newBroker(t, "rabbit")
		w.enqueue(t, waybill.Message{ID: "m", Topic: "nobody"})
		w.startRelay(t, b.connect(t).Publisher(), relay.Config{})
		w.waitStatus(t, "m", outbox.Dead)
		letters, err := w.store.DeadLetters(t.Context(), deadletter.Filter{})
		if err != nil || len(letters) != 1 || letters[0].Reason != waybill.ReasonUnroutable {
			t.Errorf("dead letters = %+v, %v; want one, unroutable", letters, err)
		}
	})
	t.Run("the broker refuses", func(t *testing.T) {
		t.Parallel()
		w, b := plainWorld(t), newBroker(t, "rabbit")
		b.declareFullQueue(t, "full", "orders")
		w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
		w.startRelay(t, b.connect(t).Publisher(), relay.Config{Retry: waybill.RetryPolicy{BaseDelay: time.Minute}})
		w.waitStatus(t, "m", outbox.Waiting)
		if s := w.state(t, "m"); s.Attempts != 1 || s.Error == "" {
			t.Errorf("the refused message has %d attempts and the error %q, want 1 and the reason", s.Attempts, s.Error)
		}
	})
	t.Run("the confirm does not come", func(t *testing.T) {
		t.Parallel()
		w, b := plainWorld(t), newBroker(t, "rabbit")
		b.subscribe(t, b.connect(t), "audit", "orders")
		proxied, proxy := b.throughProxy(t)
		pub, ops := proxied.connect(t).Publisher(), newOpCounter()
		w.startRelay(t, pub, relay.Config{Observer: ops})
		w.enqueue(t, waybill.Message{ID: "first", Topic: "orders"})
		w.waitStatus(t, "first", outbox.Published)
		proxy.StallReplies(true)
		w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
		eventually(t, "the broker has it", func() bool { return b.stored(t, "audit") >= 2 })
		eventually(t, "the relay has given up waiting", func() bool { return ops.count(waybill.OpPause) >= 1 })
		if s := w.state(t, "m"); s.Status != outbox.Pending || s.Attempts != 0 {
			t.Errorf("the unconfirmed message is %s with %d attempts, want Pending with none", s.Status, s.Attempts)
		}
		proxy.StallReplies(false)
		w.waitStatus(t, "m", outbox.Published)
	})
}

func TestAS17NoPublisher(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
	var invalid *waybill.InvalidError
	if _, err := relay.New(w.store, nil, relay.Config{}); !errors.As(err, &invalid) {
		t.Errorf("New without a publisher = %v, want an InvalidError", err)
	}
	if _, err := relay.NewFanout(w.store, []relay.Destination{{Name: "x"}}, relay.Config{}); !errors.As(err, &invalid) {
		t.Errorf("NewFanout without a publisher = %v, want an InvalidError", err)
	}
	if s := w.statuses(t, "m"); !slices.Equal(s, []outbox.Status{outbox.Pending}) {
		t.Errorf("message is %v, want Pending", s)
	}
}

func TestAS18CleanShutdown(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		release := make(chan struct{})
		reached := make(chan struct{})
		var once sync.Once
		slow := &recorder{before: func(ctx context.Context, _ []relay.Outgoing) {
			once.Do(func() { close(reached) })
			select {
			case <-release:
			case <-ctx.Done():
			}
		}, fail: func(relay.Outgoing) error { return waybill.UnavailableError(context.DeadlineExceeded) }}
		w.enqueue(t, numbered("m", "orders", 50)...)
		r, stop := w.startRelay(t, slow, relay.Config{ShutdownGrace: 300 * time.Millisecond})
		<-reached
		began := time.Now()
		stop()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("Run ended after %v, want within the grace", took)
		}
		close(release)
		if s := r.Status(); s.Lanes != 0 || s.Running {
			t.Errorf("Status() = %+v after Run, want no lane left", s)
		}
		if n := w.number(t, "SELECT count(*) FROM "+w.table("relay_lanes")+" WHERE owner IS NOT NULL") + w.number(t, "SELECT count(*) FROM "+w.table("relays")); n != 0 {
			t.Errorf("%d lanes or leases left in the database, want none", n)
		}
		if n := w.number(t, "SELECT count(*) FROM "+w.table("messages")+" WHERE attempts > 0 OR (status <> 'Pending' AND id <> 'held')"); n != 0 {
			t.Errorf("%d messages with an attempt counted or moved, want none", n)
		}
		next := &recorder{}
		w.startRelay(t, next, relay.Config{})
		eventually(t, "the next relay publishes at once", func() bool { return len(next.ids()) == 50 })
	})
}

func TestAS23OneDeadLetterAfterTheLimit(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		pub := &recorder{fail: func(m relay.Outgoing) error {
			if m.ID == "bad" {
				return errors.New("still broken")
			}
			return nil
		}}
		bad := waybill.Message{ID: "bad", Type: "order.placed", Topic: "orders", Key: "k", CorrelationID: "flow", Payload: []byte(`{"n":1}`)}
		w.enqueue(t, append(numbered("m", "orders", 20), bad)...)
		w.startRelay(t, pub, relay.Config{Retry: waybill.RetryPolicy{MaxRetries: 3, BaseDelay: 20 * time.Millisecond}})
		w.waitStatus(t, "bad", outbox.Dead)
		eventually(t, "the others are published", func() bool { return len(pub.ids()) == 20 })
		letters, err := w.store.DeadLetters(t.Context(), deadletter.Filter{})
		if err != nil || len(letters) != 1 {
			t.Fatalf("DeadLetters() = %v, %v; want one", letters, err)
		}
		l := letters[0]
		if l.Origin != deadletter.FromRelay || l.Reason != waybill.ReasonExhausted || l.Error != "still broken" || l.Attempts != 4 ||
			l.Message.ID != "bad" || l.Message.Type != "order.placed" || string(l.Message.Payload) != `{"n":1}` ||
			l.Message.CorrelationID != "flow" || l.Message.Source != "shop" || l.FirstFailed.IsZero() || !l.LastFailed.After(l.FirstFailed) {
			t.Errorf("dead letter = %+v, want everything of the message and its failures", l)
		}
		w.everyIDOnce(t, 21)
	})
}

// TestFailedWithDeadLettersDisabled is the other end of an exhausted message.
func TestFailedWithDeadLettersDisabled(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
	pub := &recorder{fail: func(relay.Outgoing) error { return errors.New("broken") }}
	w.startRelay(t, pub, relay.Config{DisableDeadLetters: true, Retry: waybill.RetryPolicy{MaxRetries: waybill.NoRetries}})
	w.waitStatus(t, "m", outbox.Failed)
	stats, err := w.store.OutboxStats(t.Context())
	if err != nil || len(stats) != 1 || stats[0].Status != outbox.Failed || stats[0].Count != 1 {
		t.Errorf("OutboxStats() = %v, %v; want one Failed", stats, err)
	}
}

func TestAS26PermanentErrorAtOnce(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		conn := b.connect(t)
		sub := b.subscribe(t, conn, "billing", "orders")
		w.startRelay(t, conn.Publisher(), relay.Config{})
		w.startConsumer(t, sub, func(_ context.Context, _ pgx.Tx, m *waybill.Message) error {
			return waybill.PermanentError(waybill.ReasonRejected, errors.New("schema is wrong"))
		}, consumer.Config{Name: "billing"})
		w.enqueue(t, waybill.Message{ID: "lost", To: b.Name + "-nowhere"}, waybill.Message{ID: "poison", Topic: "orders"})
		if b.Kind == "rabbit" { // JetStream keeps what nobody listens for
			w.waitStatus(t, "lost", outbox.Dead)
		}
		letters := w.waitLetters(t, deadletter.Filter{Origin: deadletter.FromConsumer}, 1)
		if l := letters[0]; l.Message.ID != "poison" || l.Attempts != 1 || l.Consumer != "billing" || l.Reason != waybill.ReasonRejected {
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

func TestAS28RetryBoundaries(t *testing.T) {
	t.Parallel()
	for _, retries := range []int{waybill.NoRetries, 1} {
		t.Run(fmt.Sprintf("MaxRetries %d", retries), func(t *testing.T) {
			t.Parallel()
			w := plainWorld(t)
			w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
			pub := &recorder{fail: func(relay.Outgoing) error { return errors.New("broken") }}
			w.startRelay(t, pub, relay.Config{Retry: waybill.RetryPolicy{MaxRetries: retries, BaseDelay: 20 * time.Millisecond}})
			w.waitStatus(t, "m", outbox.Dead)
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
	p, err := waybill.RetryPolicy{DisableJitter: true}.WithDefaults()
	if err != nil || p.Delay(60) != time.Minute || p.Delay(1000) != time.Minute {
		t.Errorf("Delay(60) = %v, want the cap, without overflow", p.Delay(60))
	}
}

func TestStrictKeepsOneOfAKeyInFlight(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	pub := &recorder{before: func(_ context.Context, msgs []relay.Outgoing) {
		keys := map[string]bool{}
		for _, m := range msgs {
			if keys[m.Key] {
				t.Errorf("two messages of key %s in one send", m.Key)
			}
			keys[m.Key] = true
		}
	}}
	msgs := numbered("m", "orders", 200)
	for i := range msgs {
		msgs[i].Key = fmt.Sprintf("k%d", i%7)
	}
	w.enqueue(t, msgs...)
	w.startRelay(t, pub, relay.Config{Mode: relay.Strict})
	eventually(t, "all are published", func() bool { return len(pub.ids()) == 200 })
	orderKept(t, pub)
}

// orderKept fails if the messages of a key, numbered mN, were not published in order.
func orderKept(t *testing.T, pub *recorder) {
	t.Helper()
	pub.mu.Lock()
	defer pub.mu.Unlock()
	last := map[string]int{}
	for _, m := range pub.sent {
		var n int
		if _, err := fmt.Sscanf(m.ID, "m%d", &n); err != nil {
			continue
		}
		if prev, ok := last[m.Key]; ok && n < prev {
			t.Errorf("key %s: m%d was published after m%d", m.Key, n, prev)
		}
		last[m.Key] = n
	}
}

// TestBlockedKeyWaits lets the first message of a key fail twice: the rest of the key waits
// behind it, other keys and the same key on another topic do not.
func TestBlockedKeyWaits(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		var failures atomic.Int64
		pub := &recorder{fail: func(m relay.Outgoing) error {
			if m.ID == "m0" && failures.Add(1) <= 2 {
				return errors.New("not now")
			}
			return nil
		}}
		cfg := relay.Config{Mode: relay.Strict, Retry: waybill.RetryPolicy{BaseDelay: 300 * time.Millisecond}}
		keyed := func(id, topic, key string) waybill.Message { return waybill.Message{ID: id, Topic: topic, Key: key} }
		w.enqueue(t, keyed("m0", "orders", "a"), keyed("m1", "orders", "a"), keyed("b", "orders", "b"), keyed("other", "stock", "a"))
		w.startRelay(t, pub, cfg)
		eventually(t, "the others are published", func() bool { return pub.count("b") == 1 && pub.count("other") == 1 })
		w.enqueue(t, keyed("m2", "orders", "a")) // finds its key blocked
		w.waitStatus(t, "m2", outbox.Published)
		if ids := slices.DeleteFunc(pub.ids(), func(id string) bool { return id == "b" || id == "other" }); !slices.Equal(ids, []string{"m0", "m1", "m2"}) {
			t.Errorf("key a was published as %v, want m0, m1, m2", ids)
		}
		if failures.Load() < 3 {
			t.Errorf("m0 had %d attempts, want 3", failures.Load())
		}
		w.everyIDOnce(t, 5)
	})
}

func TestFanout(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		good := &recorder{}
		var broken atomic.Bool
		broken.Store(true)
		flaky := &recorder{fail: func(relay.Outgoing) error {
			if broken.Load() {
				return errors.New("not now")
			}
			return nil
		}}
		only := func(topic string) func(*waybill.Message) bool {
			return func(m *waybill.Message) bool { return m.Topic == topic || m.Topic == "both" || m.Topic == "held" }
		}
		after := &recorder{}
		r, err := relay.NewFanout(w.store, []relay.Destination{
			{Name: "good", Publisher: good, Match: only("good")},
			{Name: "flaky", Publisher: flaky, Match: only("flaky")},
		}, quick(relay.Config{
			Mode:      relay.Strict, // so that order can be asserted while the broken one heals
			Retry:     waybill.RetryPolicy{MaxRetries: 100, BaseDelay: 30 * time.Millisecond, MaxDelay: 60 * time.Millisecond},
			Followers: []relay.Destination{{Name: "after", Publisher: after}},
		}))
		if err != nil {
			t.Fatal(err)
		}
		run(t, t.Context(), r.Run)
		w.enqueue(t,
			waybill.Message{ID: "m0", Topic: "both", Key: "k"}, waybill.Message{ID: "m1", Topic: "both", Key: "k"},
			waybill.Message{ID: "single", Topic: "good", Key: "k"}, waybill.Message{ID: "nowhere", Topic: "none"})
		eventually(t, "the good destination has its three", func() bool { return len(good.ids()) == 3 })
		w.waitStatus(t, "nowhere", outbox.Dead)
		if n := len(flaky.ids()); n != 0 {
			t.Errorf("%d accepted by the broken destination, want none", n)
		}
		broken.Store(false)
		eventually(t, "the flaky one catches up", func() bool { return len(flaky.ids()) == 2 })
		orderKept(t, flaky)
		for _, id := range []string{"m0", "m1", "single"} {
			eventually(t, id+" is followed up", func() bool { return after.count(id) >= 1 })
			eventually(t, id+" is published everywhere", func() bool {
				for _, s := range w.statuses(t, id) {
					if s != outbox.Published {
						return false
					}
				}
				return true
			})
			if n := good.count(id); n != 1 {
				t.Errorf("%s was sent to the good destination %d times, want once", id, n)
			}
		}
	})
}

// TestMalformedRowDoesNotStopItsLane inserts, as psql would, a row that does not decode.
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

// TestScheduledAndExpired: what is due later waits for it, what has expired is not sent.
func TestScheduledAndExpired(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		due := time.Now().Add(700 * time.Millisecond)
		pub := &recorder{}
		w.startRelay(t, pub, relay.Config{})
		w.enqueue(t,
			waybill.Message{ID: "later", Topic: "orders", DeliverAt: due},
			waybill.Message{ID: "stale", Topic: "orders", ExpiresAt: time.Now().Add(-time.Minute)})
		w.waitStatus(t, "stale", outbox.Dead)
		w.waitStatus(t, "later", outbox.Published)
		if s := w.state(t, "later"); s.PublishedAt.Before(due) {
			t.Errorf("published at %v, before it was due at %v", s.PublishedAt, due)
		}
		if pub.count("stale") != 0 {
			t.Error("an expired message was published")
		}
	})
}

// TestStatementBudget counts what enqueue and relay ask of the database, in sessions that
// begin at READ COMMITTED; others add BEGIN and COMMIT to a claim and to a settlement.
func TestStatementBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sessions[0])
	counter := &statementCounter{}
	cfg, err := pgxpool.ParseConfig(w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.Tracer = counter
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store, err := pgstore.New(pool, pgstore.Config{Schema: w.schema})
	if err != nil {
		t.Fatal(err)
	}
	writer, err := outbox.NewWriter(store, outbox.Config{Source: "shop", Observer: quiet})
	if err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		counter.n.Store(0)
		_, err := writer.Enqueue(counted(t.Context()), tx, numbered("m", "orders", 100)...)
		if n := counter.n.Load(); n != 1 {
			t.Errorf("enqueue of 100 messages took %d statements, want 1", n)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for batch := range 9 {
		w.enqueue(t, numbered(fmt.Sprintf("b%d-", batch), "orders", 100)...)
	}
	// The first claim of a store asks once how sessions are set up.
	if _, err := store.ClaimMessages(t.Context(), relay.ClaimRequest{Lanes: []relay.Lane{{}}, Limit: 1}); err != nil {
		t.Fatal(err)
	}
	relaySource := &countingSource{Source: store, counter: counter}
	pub := &recorder{}
	r, err := relay.New(relaySource, pub, quick(relay.Config{Parallelism: 1, Observer: quiet}))
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, t.Context(), r.Run)
	eventually(t, "all are published", func() bool { return len(pub.ids()) == 1000 })
	stop()
	batches := relaySource.batches.Load()
	if got := relaySource.statements.Load(); got > 3*batches {
		t.Errorf("the relay took %d statements for %d full batches, want at most 3 each", got, batches)
	}
	if batches < 5 {
		t.Errorf("only %d full batches were seen, want most of 10", batches)
	}
}

// statementCounter counts the statements that are run under a counted context.
type statementCounter struct{ n atomic.Int64 }

type countedKey struct{}

func counted(ctx context.Context) context.Context { return context.WithValue(ctx, countedKey{}, true) }

func (c *statementCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	if ctx.Value(countedKey{}) != nil {
		c.n.Add(1)
	}
	return ctx
}

func (c *statementCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// countingSource adds up the statements of claims that found a full batch, and of their
// settlements. The relay that uses it has one batch under way at a time.
type countingSource struct {
	relay.Source
	counter             *statementCounter
	statements, batches atomic.Int64
	mu                  sync.Mutex
}

func (s *countingSource) ClaimMessages(ctx context.Context, req relay.ClaimRequest) ([]relay.Claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.counter.n.Load()
	claims, err := s.Source.ClaimMessages(counted(ctx), req)
	if len(claims) == req.Limit {
		s.batches.Add(1)
		s.statements.Add(s.counter.n.Load() - before)
	}
	return claims, err
}

func (s *countingSource) SettleMessages(ctx context.Context, req relay.SettleRequest) ([]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.counter.n.Load()
	lost, err := s.Source.SettleMessages(counted(ctx), req)
	if len(req.Settlements) >= 100 {
		s.statements.Add(s.counter.n.Load() - before)
	}
	return lost, err
}

// TestBrokerAway takes the broker away for two seconds (two minutes in AS-15, scaled 1:60): no
// attempt is counted, nothing is dead, and all is delivered afterwards.
func TestBrokerAway(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		proxied, proxy := b.throughProxy(t)
		sub := b.subscribe(t, b.connect(t), "audit", "orders")
		ops := newOpCounter()
		w.startRelay(t, proxied.connect(t).Publisher(), relay.Config{Observer: ops, Retry: waybill.RetryPolicy{MaxRetries: 1, BaseDelay: 10 * time.Millisecond}})
		w.enqueue(t, numbered("before", "orders", 50)...)
		eventually(t, "messages flow", func() bool {
			return w.number(t, "SELECT count(*) FROM "+w.table("messages")+" WHERE status = 'Published'") == 50
		})
		gone := time.Now()
		proxy.Refuse(true)
		proxy.Cut()
		w.enqueue(t, numbered("during", "orders", 50)...)
		eventually(t, "the destination is paused, and the outage has lasted", func() bool {
			return ops.count(waybill.OpPause) >= 2 && time.Since(gone) > 2*time.Second
		})
		if n := w.number(t, "SELECT count(*) FROM "+w.table("messages")+" WHERE attempts > 0 OR status IN ('Dead', 'Failed')"); n != 0 {
			t.Errorf("%d messages had an attempt counted or are dead, want none", n)
		}
		proxy.Refuse(false)
		eventually(t, "messages flow again", func() bool {
			return w.number(t, "SELECT count(*) FROM "+w.table("messages")+" WHERE status = 'Published' AND id <> 'held'") == 100
		})
		if seen := receive(t, sub, 100); len(seen) != 100 {
			t.Errorf("%d different messages arrived, want 100", len(seen))
		}
	})
}
