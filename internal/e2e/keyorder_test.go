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

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
)

// TestOrderByKey lets the first of a key fail: later ones of the key wait for it, others go on.
//
//test:sessions
func TestOrderByKey(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		conn := b.connect(t)
		var tries atomic.Int64
		var mu sync.Mutex
		var order []string
		w.startConsumer(t, b.subscribe(t, conn, "billing", "orders"), func(_ context.Context, _ pgx.Tx, m *waybill.Message) error {
			if m.ID == "a0" && tries.Add(1) <= 2 {
				return errors.New("not now")
			}
			mu.Lock()
			defer mu.Unlock()
			order = append(order, m.ID)
			return nil
		}, consumer.Config{Order: consumer.OrderByKey})
		for i := range 5 {
			publish(t, conn, waybill.Message{ID: fmt.Sprintf("a%d", i), Topic: "orders", Key: "a"}, fmt.Sprintf("a%d", i))
		}
		publish(t, conn, waybill.Message{ID: "b", Topic: "orders", Key: "b"}, "b")
		handled := func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(order) }
		eventually(t, "all are handled", func() bool { return len(handled()) == 6 })
		got := handled()
		if got[0] != "b" {
			t.Errorf("b was handled after %v, want it before the blocked key", got)
		}
		if a := slices.DeleteFunc(got, func(id string) bool { return id == "b" }); !slices.Equal(a, []string{"a0", "a1", "a2", "a3", "a4"}) {
			t.Errorf("key a was handled as %v", a)
		}
	})
}

// TestOrderByKeyAtShutdown stops a consumer while a key's first message fails: what follows
// it must not be handled on the way out.
//
//test:sessions
func TestOrderByKeyAtShutdown(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	for range 10 {
		b := membroker.New()
		sub := from(b, consumer.Subscription{Group: "billing", Topics: []string{"orders"}})
		failed, handled := make(chan struct{}, 100), make(chan string, 100)
		_, stop := w.startConsumer(t, sub, func(_ context.Context, _ pgx.Tx, m *waybill.Message) error {
			if m.Subject == "first" {
				failed <- struct{}{}
				return errors.New("not now")
			}
			handled <- m.ID
			return nil
		}, consumer.Config{Order: consumer.OrderByKey, Retry: waybill.RetryPolicy{BaseDelay: time.Hour, MaxDelay: time.Hour}})
		publish(t, b, waybill.Message{Topic: "orders", Key: "a", Subject: "first"}, "")
		for range 5 {
			publish(t, b, waybill.Message{Topic: "orders", Key: "a"}, "")
		}
		<-failed
		stop()
		if n := len(handled); n != 0 {
			t.Fatalf("%d messages overtook the failed one at the shutdown", n)
		}
	}
}
