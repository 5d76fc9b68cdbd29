package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/pgstore"
)

// TestDatabaseAway (AS-14): relay and health recover from a database that is away, and from a publisher that panics.
func TestDatabaseAway(t *testing.T) {
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

// TestPanickingPublisher (AS-14): relay and health recover from a database that is away, and from a publisher that
// panics.
func TestPanickingPublisher(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	pub := &recorder{before: func(_ context.Context, msgs []contract.Outgoing) {
		for _, m := range msgs {
			if m.ID == "m3" {
				panic("boom")
			}
		}
	}}
	w.enqueue(t, numbered("m", "orders", 10)...)
	r, _ := w.startRelay(t, pub, relay.Config{})
	w.waitStatus(t, "m3", inspect.Dead)
	eventually(t, "the nine others are published", func() bool { return len(pub.ids()) == 9 })
	letters, err := w.store.DeadLetters(t.Context(), deadletter.Filter{})
	if err != nil || len(letters) != 1 || letters[0].Reason != waybill.ReasonPoison {
		t.Errorf("dead letters = %v, %v; want the one that panics, as poison", letters, err)
	}
	if err := r.Health(); err != nil {
		t.Errorf("Health() = %v, want the relay alive", err)
	}
}

// TestNotPublishedWithoutProof (AS-16): what nobody would receive, what is refused and what is not confirmed is not
// marked as published.
func TestNotPublishedWithoutProof(t *testing.T) {
	t.Parallel()
	t.Run("no queue is bound", func(t *testing.T) {
		t.Parallel()
		w, b := plainWorld(t), newBroker(t, "rabbit")
		w.enqueue(t, waybill.Message{ID: "m", Topic: "nobody"})
		w.startRelay(t, b.connect(t).Publisher(), relay.Config{})
		w.waitStatus(t, "m", inspect.Dead)
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
		w.waitStatus(t, "m", inspect.Waiting)
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
		w.waitStatus(t, "first", inspect.Published)
		proxy.StallReplies(true)
		w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
		eventually(t, "the broker has it", func() bool { return b.stored(t, "audit") >= 2 })
		eventually(t, "the relay has stopped waiting", func() bool { return ops.count(observe.OpPause) >= 1 })
		if s := w.state(t, "m"); s.Status != inspect.Pending || s.Attempts != 0 {
			t.Errorf("the unconfirmed message is %s with %d attempts, want Pending with none", s.Status, s.Attempts)
		}
		proxy.StallReplies(false)
		w.waitStatus(t, "m", inspect.Published)
	})
}

// TestBrokerAway (AS-15) takes the broker away for two minutes, or, unless it soaks, two seconds:
// no attempt is counted, nothing is dead, and all is delivered afterwards. Five retries at
// these delays would be used up within a second.
//
//test:soak
func TestBrokerAway(t *testing.T) {
	away := 2 * time.Second
	if soaking() {
		away = 2 * time.Minute
	}
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		proxied, proxy := b.throughProxy(t)
		sub := b.subscribe(t, b.connect(t), "audit", "orders")
		ops := newOpCounter()
		w.startRelay(t, proxied.connect(t).Publisher(), relay.Config{Observer: ops, Retry: waybill.RetryPolicy{MaxRetries: 5, BaseDelay: 10 * time.Millisecond, MaxDelay: 50 * time.Millisecond}})
		w.enqueue(t, numbered("before", "orders", 50)...)
		eventually(t, "messages flow", func() bool {
			return w.number(t, "SELECT count(*) FROM "+w.table("messages")+" WHERE status = 'Published'") == 50
		})
		gone := time.Now()
		proxy.Refuse(true)
		proxy.Cut()
		w.enqueue(t, numbered("during", "orders", 50)...)
		within(t, away+patience, "the destination is paused, and the outage has lasted", func() bool {
			return ops.count(observe.OpPause) >= 2 && time.Since(gone) > away
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
