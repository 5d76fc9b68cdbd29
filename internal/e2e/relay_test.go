package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/relay"
)

// TestEightRelays (AS-07): eight relays and 10,000 messages: each arrives, and if nothing crashes once.
func TestEightRelays(t *testing.T) {
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
		w.startRelay(t, pub, relay.Config{
			Node: fmt.Sprintf("relay-%d", i),
			// Far more than a busy machine takes: no lease ends and no confirm is late.
			LeaseTTL: 2 * time.Minute, RenewInterval: 500 * time.Millisecond, PublishTimeout: time.Minute,
		})
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
	contract.Publisher
	n *atomic.Int64
}

func (p countingPublisher) Send(ctx context.Context, msgs []contract.Outgoing) func() []error {
	p.n.Add(int64(len(msgs)))
	return p.Publisher.Send(ctx, msgs)
}

// receive takes n messages from a source and counts them by id.
func receive(t *testing.T, s source, n int) map[string]int {
	t.Helper()
	var mu sync.Mutex
	seen, total := map[string]int{}, 0
	stop := run(t, t.Context(), func(ctx context.Context) error {
		return s.sub.Subscribe(ctx, 1000, func(d contract.Delivery) {
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

// TestOnePoisonInAHundred (AS-11): one poison message of a hundred is tried again alone; the others go.
//
//test:sessions
//test:pooled
func TestOnePoisonInAHundred(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		var sends atomic.Int64
		pub := &recorder{
			before: func(_ context.Context, msgs []contract.Outgoing) {
				if len(msgs) > 1 {
					sends.Add(1)
				}
			},
			fail: func(m contract.Outgoing) error {
				if m.ID == "m42" {
					return errors.New("this one fails")
				}
				return nil
			},
		}
		w.enqueue(t, numbered("m", "orders", 100)...)
		w.startRelay(t, pub, relay.Config{Retry: waybill.RetryPolicy{MaxRetries: 2, BaseDelay: 50 * time.Millisecond}})
		w.waitStatus(t, "m42", inspect.Dead)
		if n := len(pub.ids()); n != 99 {
			t.Errorf("%d published, want the 99 others", n)
		}
		if s := w.state(t, "m42"); s.Attempts != 3 {
			t.Errorf("the poison had %d attempts, want 3", s.Attempts)
		}
		w.everyIDOnce(t, 100)
	})
}

// TestNoPublisher (AS-17): a relay without a publisher is refused.
//
//test:sessions
//test:pooled
func TestNoPublisher(t *testing.T) {
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
	if s := w.statuses(t, "m"); !slices.Equal(s, []inspect.Status{inspect.Pending}) {
		t.Errorf("message is %v, want Pending", s)
	}
}

// TestCleanShutdown (AS-18): a relay that stops gives its lanes back, and counts no attempt for what it has
// interrupted.
//
//test:sessions
//test:pooled
func TestCleanShutdown(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		release := make(chan struct{})
		reached := make(chan struct{})
		var once sync.Once
		slow := &recorder{before: func(ctx context.Context, _ []contract.Outgoing) {
			once.Do(func() { close(reached) })
			select {
			case <-release:
			case <-ctx.Done():
			}
		}, fail: func(contract.Outgoing) error { return waybill.UnavailableError(context.DeadlineExceeded) }}
		w.enqueue(t, numbered("m", "orders", 50)...)
		cfg := slowLease // without the grace, Run would wait for the broker
		cfg.ShutdownGrace = 300 * time.Millisecond
		r, stop := w.startRelay(t, slow, cfg)
		<-reached
		stop()
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

// TestScheduledAndExpired: what is due later waits for it, what has expired is not sent.
//
//test:sessions
func TestScheduledAndExpired(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		due := time.Now().Add(700 * time.Millisecond)
		pub := &recorder{}
		w.startRelay(t, pub, relay.Config{})
		w.enqueue(t,
			waybill.Message{ID: "later", Topic: "orders", DeliverAt: due},
			waybill.Message{ID: "stale", Topic: "orders", ExpiresAt: time.Now().Add(-time.Minute)})
		w.waitStatus(t, "stale", inspect.Dead)
		w.waitStatus(t, "later", inspect.Published)
		if s := w.state(t, "later"); s.PublishedAt.Before(due) {
			t.Errorf("published at %v, before it was due at %v", s.PublishedAt, due)
		}
		if pub.count("stale") != 0 {
			t.Error("an expired message was published")
		}
	})
}
