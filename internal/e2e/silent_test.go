package e2e

import (
	"fmt"
	"testing"
	"time"

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
