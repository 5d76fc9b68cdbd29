package e2e

import (
	"context"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
	"github.com/waybill-go/waybill/observe"
)

// proxiedLeases returns a lease store behind a proxy, and the same one reached directly.
func proxiedLeases(t *testing.T) (proxied lease.Store, proxy *faultproxy.Proxy, direct lease.Store) {
	t.Helper()
	u, err := url.Parse(redisURL())
	if err != nil {
		t.Fatal(err)
	}
	if proxy, err = faultproxy.New(context.WithoutCancel(t.Context()), u.Host); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	direct, prefix := redisLeases(t, redisURL())
	u.Host = proxy.Addr()
	store, client, err := openRedis(u.String(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return store, proxy, direct
}

// TestLeaseStoreAway (AS-49) cuts a consumer off from its lease store. Messages wait, uncounted, and
// are handled once when it is back; with FailOpen they are handled meanwhile, and that is counted.
func TestLeaseStoreAway(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		for name, open := range map[string]bool{"closed": false, "open": true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				store, proxy, direct := proxiedLeases(t)
				conn, ops := b.connect(t), newOpCounter()
				sub := b.subscribe(t, conn, name, "orders."+name)
				stop := w.startLeased(t, sub, store, w.leasedEffect(name), consumer.Leases{FailOpen: open}, consumer.Config{Observer: ops})
				before, during := numbered("before", "orders."+name, 3), numbered("during", "orders."+name, 3)
				for _, m := range before {
					publish(t, conn, m, m.ID)
					w.waitEffects(t, name, m.ID, 1)
				}
				proxy.Refuse(true)
				proxy.Cut()
				for _, m := range during {
					publish(t, conn, m, m.ID)
				}
				if open {
					for _, m := range during {
						w.waitEffects(t, name, m.ID, 1)
					}
					eventually(t, "what had no lease is counted", func() bool { return ops.count(observe.OpUnleased) == 3 })
				} else {
					eventually(t, "each has been deferred more than once", func() bool { return ops.count(observe.OpPause) > 6 })
					for _, m := range during {
						w.waitEffects(t, name, m.ID, 0)
					}
				}
				proxy.Refuse(false)
				for _, m := range during {
					w.waitEffects(t, name, m.ID, 1)
				}
				stop()
				eventually(t, "all are acknowledged", func() bool { return b.unsettled(t, name) == 0 })
				checkAttempts(t, direct, b.group(name), during, open)
				w.waitLetters(t, deadletter.Filter{Consumer: b.group(name)}, 0)
				if n := ops.count(observe.OpRetry); n != 0 {
					t.Errorf("%d attempts counted as failed, want none", n)
				}
			})
		}
	})
}

// checkAttempts: what waited for the store was begun once; what did not is not known to it.
func checkAttempts(t *testing.T, store lease.Store, name string, msgs []waybill.Message, unleased bool) {
	t.Helper()
	for _, m := range msgs {
		m.Source, m.Type = "shop", m.Topic
		rec, err := store.ReadLease(t.Context(), lease.KeyOf("bus", name, &m).String())
		switch {
		case err != nil:
			t.Error(err)
		case unleased && rec.Status != lease.Unknown, !unleased && (rec.Status != lease.Processed || rec.Attempts != 1):
			t.Errorf("%s is %+v", m.ID, rec)
		}
	}
}

// countingLeases counts how often keys are asked for.
type countingLeases struct {
	lease.Store
	tries atomic.Int64
}

func (s *countingLeases) TryBegin(ctx context.Context, req lease.Request) (lease.Answer, error) {
	s.tries.Add(1)
	return s.Store.TryBegin(ctx, req)
}

// TestLeaseBusy (AS-51) delivers a message that somebody else holds. It comes again when that one's lease
// has ended, without a counted attempt, after few tries.
func TestLeaseBusy(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		redis, _ := redisLeases(t, redisURL())
		store, conn, ops := &countingLeases{Store: redis}, b.connect(t), newOpCounter()
		m := waybill.Message{ID: "m", Topic: "orders", Source: "shop", Type: "orders"}
		key := lease.KeyOf("bus", b.group("mailer"), &m).String()
		held, err := redis.TryBegin(t.Context(), lease.Request{Key: key, TTL: 2 * leaseTTL})
		if err != nil || held.Status != lease.Acquired {
			t.Fatalf("TryBegin() = %+v, %v", held, err)
		}
		began := time.Now()
		effect := w.leasedEffect("mailer")
		var waited atomic.Int64
		w.startLeased(t, b.subscribe(t, conn, "mailer", "orders"), store, func(ctx context.Context, m *waybill.Message) error {
			waited.Store(int64(time.Since(began)))
			return effect(ctx, m)
		}, consumer.Leases{}, consumer.Config{Observer: ops, Retry: waybill.RetryPolicy{MaxRetries: waybill.NoRetries}})
		publish(t, conn, m, "m")
		w.waitEffects(t, "mailer", "m", 1)
		if d := time.Duration(waited.Load()); d < 2*leaseTTL-50*time.Millisecond {
			t.Errorf("handled after %v, while the lease of %v was somebody else's", d, 2*leaseTTL)
		}
		if tries, busy := store.tries.Load(), ops.count(observe.OpBusy); tries > 4 || int64(busy) != tries-1 {
			t.Errorf("%d tries, %d of them busy; want few, and the last one acquired", tries, busy)
		}
		if n := ops.count(observe.OpRetry) + ops.count(observe.OpDead); n != 0 {
			t.Errorf("%d failures counted, want none", n)
		}
	})
}
