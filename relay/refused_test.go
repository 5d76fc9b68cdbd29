package relay

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// TestRelay_RefusedSettlement: a settlement that the store refuses holds up its own key alone, turns
// the health red, and goes in when the store takes it.
func TestRelay_RefusedSettlement(t *testing.T) {
	t.Parallel()
	src, broker := newFakeSource(), &fakeBroker{}
	for n := range 50 {
		src.add(message("orders", "", n+1), message("orders", "k", n+1))
	}
	src.refuseID = "orders//17"
	inBubble(t, src, []Destination{{Publisher: broker}}, Config{}, func(t *testing.T, r *Relay) {
		pass(10 * time.Second)
		if ids := broker.ids(); len(ids) != 100 {
			t.Errorf("%d messages have arrived, want all 100, once", len(ids))
		}
		if left := src.list(); len(left) != 1 || left[0].Message.ID != src.refuseID {
			t.Fatalf("%d are left in the store, want the one that is refused", len(left))
		}
		if err := r.Health(); err != nil {
			t.Errorf("Health() = %v at once, want nil", err)
		}
		src.add(message("orders", "", 51), message("orders", "k", 51))
		pass(2 * time.Minute)
		var stalled *waybill.StalledError
		if err := r.Health(); !errors.As(err, &stalled) || !errors.Is(err, errRefused) {
			t.Errorf("Health() = %v, want that the store refuses a settlement", err)
		}
		src.mu.Lock()
		src.refuseID = ""
		src.mu.Unlock()
		pass(time.Minute)
		if err := r.Health(); src.left() != 0 || err != nil || r.Status().Held != 0 {
			t.Errorf("%d are left in the store, %d held, Health() = %v, want none", src.left(), r.Status().Held, err)
		}
		if src.settles > 60 {
			t.Errorf("%d settlements were tried, want few", src.settles)
		}
	})
}

// TestRelay_RefusedSettlementKeepsOrder: what follows a message of its key waits with it.
func TestRelay_RefusedSettlementKeepsOrder(t *testing.T) {
	t.Parallel()
	src := newFakeSource()
	failed := false
	broker := &fakeBroker{answer: func(m contract.Outgoing) (time.Duration, error) {
		if m.ID == "orders/k/1" && !failed {
			failed = true
			return 0, errRefused
		}
		return 0, nil
	}}
	for n := range 10 {
		src.add(message("orders", "k", n+1), message("orders", "l", n+1))
	}
	src.refuseID = "orders/k/1"
	inBubble(t, src, []Destination{{Publisher: broker}}, Config{Mode: Strict}, func(t *testing.T, r *Relay) {
		pass(time.Minute)
		if ids := broker.ids(); len(ids) != 10 || slices.Contains(ids, "orders/k/2") {
			t.Errorf("arrived: %v, want those of the other key alone", ids)
		}
		src.mu.Lock()
		src.refuseID = ""
		src.mu.Unlock()
		pass(time.Minute)
		inOrder(t, broker.ids(), 20)
	})
}

// TestRelay_RefusedSettlementDoesNotHoldUpTheEnd: it is still in the store for the next relay.
func TestRelay_RefusedSettlementDoesNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	src := newFakeSource()
	src.add(message("orders", "", 1))
	src.refuseID = "orders//1"
	var began, ended time.Time
	synctest.Test(t, func(t *testing.T) {
		src.commits = make(chan struct{}, 1)
		r, err := New(src, &fakeBroker{}, Config{Observer: quiet})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		pass(10 * time.Second)
		began = time.Now()
		cancel()
		err, ended = <-done, time.Now()
		if err != nil || ended.Sub(began) > time.Second {
			t.Errorf("Run() = %v after %v, want nil at once", err, ended.Sub(began))
		}
	})
}

// TestRelay_ReleaseFails: messages that are not scheduled go on, and the health turns red.
func TestRelay_ReleaseFails(t *testing.T) {
	t.Parallel()
	src, broker := newFakeSource(), &fakeBroker{}
	src.refuseRelease = errRefused
	inBubble(t, src, []Destination{{Publisher: broker}}, Config{}, func(t *testing.T, r *Relay) {
		pass(2 * time.Minute)
		src.add(message("orders", "k", 1))
		pass(10 * time.Second)
		inOrder(t, broker.ids(), 1)
		if err := r.Health(); !errors.Is(err, errRefused) {
			t.Errorf("Health() = %v, want that scheduled messages are not released", err)
		}
		src.mu.Lock()
		src.refuseRelease = nil
		src.mu.Unlock()
		pass(10 * time.Second)
		if err := r.Health(); err != nil {
			t.Errorf("Health() = %v, want nil", err)
		}
	})
}
