package e2e

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/relay"
)

// TestTenantsShareFairly (AS-21) has one tenant with 10,000 messages on a destination that takes
// twenty a second, so that it is busy for eight minutes: the ten messages of another go before
// nearly all of these, and so do those of one that nobody has heard of.
func TestTenantsShareFairly(t *testing.T) {
	t.Parallel()
	const (
		rate = 20
		few  = 1000 // of the 10,000 go while the relay finds the others behind them, if it is slow
	)
	w := plainWorld(t)
	w.exec(t, "INSERT INTO "+w.table("outbox")+" (id, topic, tenant, key, payload)"+
		" SELECT 'large-' || i, 'orders', 'large', 'large-' || i % 100, '{}' FROM generate_series(1, 10000) i")
	var sent atomic.Int64
	pub := &recorder{before: func(_ context.Context, msgs []contract.Outgoing) { sent.Add(int64(len(msgs))) }}
	r, err := relay.NewFanout(w.store, []relay.Destination{{Publisher: pub, Rate: rate}}, quick(relay.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	run(t, t.Context(), r.Run)
	eventually(t, "the large tenant's messages flow", func() bool { return sent.Load() >= rate/2 })
	var small []waybill.Message
	for _, tenant := range []string{"small", ""} { // "" is the default tenant
		for i := range 10 {
			small = append(small, waybill.Message{ID: fmt.Sprintf("small-%s-%d", tenant, i), Topic: "orders", Tenant: tenant, Key: fmt.Sprint(i % 2)})
		}
	}
	w.enqueue(t, small...)
	before := sent.Load()
	eventually(t, "the small tenants' messages are out", func() bool {
		n := 0
		for _, m := range small {
			n += min(pub.count(m.ID), 1)
		}
		return n == len(small)
	})
	if n := sent.Load() - before; n > few {
		t.Errorf("%d messages were sent until the small tenants' were out, want at most %d", n, few)
	}
	// A second's worth may go at once.
	if n, most := sent.Load(), rate*(1+time.Since(began).Seconds()); float64(n) > most {
		t.Errorf("%d messages were sent within %v, want at most %.0f", n, time.Since(began), most)
	}
}
