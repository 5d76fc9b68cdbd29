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
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/pgstore"
)

// badID says of which messages a refuser's publisher and a failer's handler want to know
// nothing.
func badID(id string) bool { return strings.HasPrefix(id, "bad") }

// refuse runs a relay whose publisher refuses bad messages.
func (c child) refuse(ctx context.Context, store *pgstore.Store[pgx.Tx]) error {
	cfg := childLease
	cfg.Observer, cfg.Retry, cfg.DisableDeadLetters = announcer{}, c.Retry, c.NoLetters
	pub := &recorder{fail: func(m contract.Outgoing) error {
		if badID(m.ID) {
			return errors.New("still broken")
		}
		return nil
	}}
	r, err := relay.New(store, pub, quick(cfg))
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// fail runs a consumer whose handler fails on bad messages.
func (c child) fail(ctx context.Context, store *pgstore.Store[pgx.Tx]) error {
	b, err := c.Broker.openPatiently(ctx)
	if err != nil {
		return err
	}
	w := &world{schema: c.Schema}
	sub := consumer.Subscription{Group: c.Broker.group("billing"), Topics: []string{"orders"}}
	cons, err := consumer.New(b, sub, store, func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
		if badID(m.ID) {
			return errors.New("still broken")
		}
		return w.addEffect(ctx, tx, "billing", m.ID)
	}, quickConsumer(consumer.Config{Observer: announcer{}, Retry: c.Retry, DisableDeadLetters: c.NoLetters}))
	if err != nil {
		return err
	}
	return cons.Run(ctx)
}

// failingSide is one of the two that retry: the child that does it, where it writes attempts
// down, and how a message gets there.
type failingSide struct {
	role, table string
	send        func(t *testing.T, w *world, b brokerSettings, msgs ...waybill.Message)
}

var failingSides = map[string]failingSide{
	"relay": {"refuser", "outbox_waiting", func(t *testing.T, w *world, _ brokerSettings, msgs ...waybill.Message) {
		w.enqueue(t, msgs...)
	}},
	"consumer": {"failer", "consumer_attempts", func(t *testing.T, w *world, b brokerSettings, msgs ...waybill.Message) {
		conn := b.connect(t)
		b.subscribe(t, conn, "billing", "orders")
		for _, m := range msgs {
			publish(t, conn, m, m.ID)
		}
	}},
}

func onBothSides(t *testing.T, story func(t *testing.T, w *world, b brokerSettings, side failingSide)) {
	t.Parallel()
	for name, side := range failingSides {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, plainWorld(t), newBroker(t, "rabbit"), side)
		})
	}
}

// behindProxy returns the same world as a child sees it, whose connections pass a proxy.
func (w *world) behindProxy(t *testing.T) (*world, *faultproxy.Proxy) {
	t.Helper()
	cfg, err := pgx.ParseConfig(w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("%s:%d", cfg.Host, cfg.Port)
	proxy, err := faultproxy.New(context.WithoutCancel(t.Context()), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return &world{dsn: strings.Replace(w.dsn, address, proxy.Addr(), 1), schema: w.schema}, proxy
}

// failedAttempt is what a store has recorded about the latest one.
type failedAttempt struct {
	count int
	due   time.Time
}

// waitAttempt waits until at least count failed attempts are recorded.
func (w *world) waitAttempt(t *testing.T, side failingSide, count int) (a failedAttempt) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d failed attempts are in %s", count, side.table), func() bool {
		a = w.failedAttempt(t, side)
		return a.count >= count
	})
	return a
}

// failedAttempt reads the only row of the table; there may be none.
func (w *world) failedAttempt(t *testing.T, side failingSide) (a failedAttempt) {
	t.Helper()
	err := w.pool.QueryRow(t.Context(), "SELECT attempts, due_at FROM "+w.table(side.table)+" WHERE due_at IS NOT NULL").Scan(&a.count, &a.due)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatalf("read %s: %v", side.table, err)
	}
	return a
}

// isPast reports whether the database's clock has passed a time.
func (w *world) isPast(t *testing.T, at time.Time) bool {
	t.Helper()
	return w.number(t, "SELECT (clock_timestamp() > $1)::int", at) == 1
}

// TestDelaysOutliveCutsAndKills (AS-22) lets a message fail until it is dead. Before the third
// attempt the store is away until that is overdue, after it the process is killed. What is
// recorded shows that no delay was shortened, reset or skipped: an attempt is not made
// before it is due, and its own delay begins then. A second of the scenario takes 200 ms (1:5).
func TestDelaysOutliveCutsAndKills(t *testing.T) {
	const second = 200 * time.Millisecond
	delays := []time.Duration{1 * second, 2 * second, 4 * second, 6 * second, 6 * second} // capped
	onBothSides(t, func(t *testing.T, w *world, b brokerSettings, side failingSide) {
		settings := child{Role: side.role, Broker: b, Retry: waybill.RetryPolicy{MaxRetries: 5, BaseDelay: second, MaxDelay: 6 * second, DisableJitter: true}}
		proxied, proxy := w.behindProxy(t)
		first := proxied.startChild(t, settings)
		side.send(t, w, b, waybill.Message{ID: "bad", Topic: "orders"})
		seen := []failedAttempt{w.waitAttempt(t, side, 1), w.waitAttempt(t, side, 2)}
		proxy.Refuse(true)
		proxy.Cut()
		cut := w.failedAttempt(t, side)
		eventually(t, "the next attempt is overdue", func() bool { return w.isPast(t, cut.due.Add(second)) })
		w.wantUnchanged(t, side, cut)
		proxy.Refuse(false)
		third := w.waitAttempt(t, side, cut.count+1)
		first.kill()
		w.wantUnchanged(t, side, third)
		w.startChild(t, settings)
		seen = append(seen, cut, third, w.waitAttempt(t, side, third.count+1))
		l := w.waitLetters(t, deadletter.Filter{}, 1)[0]
		if l.Attempts != 6 || l.Reason != waybill.ReasonExhausted {
			t.Errorf("%d attempts, reason %s; want 6, exhausted", l.Attempts, l.Reason)
		}
		for i := 1; i < len(seen); i++ {
			var least time.Duration
			for _, delay := range delays[seen[i-1].count:seen[i].count] {
				least += delay
			}
			if got := seen[i].due.Sub(seen[i-1].due); got < least-time.Millisecond {
				t.Errorf("from attempt %d to %d due times are %v apart, want at least %v", seen[i-1].count, seen[i].count, got, least)
			}
		}
		if last := seen[len(seen)-1].due; l.LastFailed.Before(last.Add(-time.Millisecond)) {
			t.Errorf("the last attempt failed at %v, want it not before %v, when the one before it was due", l.LastFailed, last)
		}
	})
}

func (w *world) wantUnchanged(t *testing.T, side failingSide, want failedAttempt) {
	t.Helper()
	if a := w.failedAttempt(t, side); a.count != want.count || !a.due.Equal(want.due) {
		t.Errorf("%d attempts, due at %v; want them unchanged: %d, due at %v", a.count, a.due, want.count, want.due)
	}
}

// hasty is a broker that delivers again at once, whatever it was asked for.
type hasty struct{ contract.Subscriber }

func (s hasty) Subscribe(ctx context.Context, prefetch int, deliver func(contract.Delivery)) error {
	return s.Subscriber.Subscribe(ctx, prefetch, func(d contract.Delivery) { deliver(hastyDelivery{d}) })
}

type hastyDelivery struct{ contract.Delivery }

func (d hastyDelivery) Retry(ctx context.Context, _ time.Duration) error {
	return d.Delivery.Retry(ctx, 20*time.Millisecond)
}

// TestHastyBroker (AS-22): what the store holds decides, not when the broker delivers. A second
// of the scenario takes 500 ms (1:2).
func TestHastyBroker(t *testing.T) {
	t.Parallel()
	const second = 500 * time.Millisecond
	w, b, side := plainWorld(t), newBroker(t, "rabbit"), failingSides["consumer"]
	conn := b.connect(t)
	s := b.subscribe(t, conn, "billing", "orders")
	s.sub = hasty{s.sub}
	w.startConsumer(t, s, func(context.Context, pgx.Tx, *waybill.Message) error {
		return errors.New("still broken")
	}, consumer.Config{Retry: waybill.RetryPolicy{MaxRetries: 2, BaseDelay: second, DisableJitter: true}})
	publish(t, conn, waybill.Message{ID: "m", Topic: "orders"}, "m")
	first := w.waitAttempt(t, side, 1)
	l := w.waitLetters(t, deadletter.Filter{}, 1)[0]
	if least := first.due.Add(2 * second).Add(-time.Millisecond); first.count == 1 && l.LastFailed.Before(least) || l.Attempts != 3 {
		t.Errorf("%d attempts, the last at %v; want 3, the last not before %v", l.Attempts, l.LastFailed, least)
	}
}
