package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/pgstore"
)

// TestSilentDatabaseConnections: the connections of a relay go silent without a word, as in the
// failover of a database behind a name, or behind a NAT that has forgotten them; new ones are fine.
// All that is enqueued is published and settled, whatever the relay was doing.
//
//test:sessions
func TestSilentDatabaseConnections(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		proxied, proxy := w.throughProxy(t)
		pub := &recorder{}
		r, err := relay.New(proxied, pub, quick(relay.Config{LeaseTTL: 2 * time.Second, RenewInterval: 300 * time.Millisecond, PublishTimeout: time.Second}))
		if err != nil {
			t.Fatal(err)
		}
		run(t, t.Context(), r.Run)
		last := ""
		for n := range 20 {
			w.enqueue(t, numbered(fmt.Sprint("m", n, "-"), "orders", 5)...)
			last = fmt.Sprint("m", n, "-4")
			if n == 10 {
				eventually(t, "the relay works", func() bool { return len(pub.ids()) > 0 })
				proxy.Swallow()
			}
		}
		within(t, 2*patience, "all are settled", func() bool {
			return w.number(t, "SELECT count(*) FROM "+w.table("messages")+" WHERE status = 'Published' AND id <> 'held'") == 100
		})
		w.waitStatus(t, last, inspect.Published)
		eventually(t, "the relay is well", func() bool { return r.Health() == nil })
	})
}

// TestSilentDatabaseOfOneConsumer: the database answers nothing to one of two replicas. What it has
// received is given back and handled by the other one, its Health says so, and it works on afterwards.
//
//test:sessions
func TestSilentDatabaseOfOneConsumer(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), membroker.New()
	proxied, proxy := w.throughProxy(t)
	sub := consumer.Subscription{Group: "billing", Topics: []string{"orders"}}
	start := func(store *pgstore.Store[pgx.Tx], name string) (*consumer.Consumer[pgx.Tx], func()) {
		c, err := consumer.New(b, sub, store, w.effectHandler(name), quickConsumer(consumer.Config{
			Node: name, Concurrency: 4, HandlerTimeout: time.Second, StoreTimeout: 2 * time.Second,
		}))
		if err != nil {
			t.Fatal(err)
		}
		return c, run(t, t.Context(), c.Run)
	}
	sent := 0
	send := func(n int) {
		for range n {
			id := fmt.Sprint("m", sent)
			publish(t, b, waybill.Message{ID: id, Topic: "orders"}, id)
			sent++
		}
	}
	handled := func() int { return w.number(t, "SELECT count(*) FROM "+w.table("inbox")) }

	cut, stopCut := start(proxied, "cut")
	defer stopCut()
	eventually(t, "the first receives", func() bool { return cut.Health() == nil })
	send(10)
	eventually(t, "the first handles", func() bool { return handled() == sent })
	proxy.Stall(true)
	well, stopWell := start(w.store, "well")
	send(80)
	eventually(t, "the silent one says so", func() bool { return cut.Health() != nil })
	eventually(t, "all are handled", func() bool { return handled() == sent })
	if err := well.Health(); err != nil {
		t.Errorf("Health() of the other one = %v, want nil", err)
	}
	proxy.Stall(false)
	stopWell()
	send(10)
	within(t, 2*patience, "the first works on", func() bool { return handled() == sent && cut.Health() == nil })
	if n := w.number(t, "SELECT count(*) FROM "+w.table("consumer_attempts")+" WHERE attempts > 0"); n != 0 {
		t.Errorf("%d messages have failed attempts, want none", n)
	}
}

// TestRelayCutOffFromItsBroker: one of two relays cannot reach the broker, from the start. It gives its
// lanes away, says that it is not well, and all is published by the other one.
func TestRelayCutOffFromItsBroker(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	short := relay.Config{LeaseTTL: time.Second, RenewInterval: 100 * time.Millisecond, PublishTimeout: 500 * time.Millisecond}
	pub := &recorder{}
	cut, _ := w.startRelay(t, &recorder{fail: func(contract.Outgoing) error { return waybill.UnavailableError(errors.New("no route to host")) }}, short)
	eventually(t, "the first has all lanes", func() bool { return cut.Status().Lanes > 0 })
	well, _ := w.startRelay(t, pub, short)
	eventually(t, "both have lanes", func() bool { return well.Status().Lanes > 0 && cut.Status().Lanes <= well.Status().Lanes })
	msgs := numbered("m", "orders", 200)
	for i := range msgs {
		msgs[i].Key = msgs[i].ID // spread over all lanes
	}
	w.enqueue(t, msgs...)
	eventually(t, "the one that is cut off is not well", func() bool { return cut.Health() != nil })
	eventually(t, "all are published", func() bool { return len(pub.ids()) == 200 })
	if err := well.Health(); err != nil {
		t.Errorf("Health() of the other relay = %v, want nil", err)
	}
}

// TestStreamDeletedUnderTheRelay: a stream that is deleted while the relay runs is created again, and
// what is enqueued from then on arrives; nothing is a dead letter.
func TestStreamDeletedUnderTheRelay(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), newBroker(t, "nats")
	w.startRelay(t, b.connect(t).Publisher(), relay.Config{})
	w.enqueue(t, numbered("before", "orders", 10)...)
	published := func(n int) func() bool {
		return func() bool {
			return w.number(t, "SELECT count(*) FROM "+w.table("messages")+" WHERE status = 'Published' AND id <> 'held'") == n
		}
	}
	eventually(t, "messages flow", published(10))
	b.deleteStream(t)
	w.enqueue(t, numbered("after", "orders", 50)...)
	eventually(t, "messages flow again", published(60))
	if seen := receive(t, b.subscribe(t, b.connect(t), "audit", "orders"), 50); len(seen) != 50 {
		t.Errorf("%d different messages arrived, want those from after the deletion", len(seen))
	}
	w.nothingGivenUp(t)
}
