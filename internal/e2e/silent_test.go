package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
)

// TestSilentDatabaseConnections: the connections of a relay go silent without a word, as in the
// failover of a database behind a name, or behind a NAT that has forgotten them; new ones are fine.
// All that is enqueued is published and settled, whatever the relay was doing.
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
		w.waitStatus(t, last, outbox.Published)
		eventually(t, "the relay is well", func() bool { return r.Health() == nil })
	})
}

// TestRelayCutOffFromItsBroker: one of two relays cannot reach the broker, from the start. It gives its
// lanes away, says that it is not well, and all is published by the other one.
func TestRelayCutOffFromItsBroker(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	short := relay.Config{LeaseTTL: time.Second, RenewInterval: 100 * time.Millisecond, PublishTimeout: 500 * time.Millisecond}
	pub := &recorder{}
	cut, _ := w.startRelay(t, &recorder{fail: func(relay.Outgoing) error { return waybill.UnavailableError(errors.New("no route to host")) }}, short)
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
