package service

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// listen subscribes to l until the returned function is called, which waits.
func listen(t *testing.T, l *local, prefetch int, deliver func(contract.Delivery)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Subscribe(ctx, prefetch, deliver) }()
	synctest.Wait()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Subscribe() = %v", err)
		}
	}
}

func outgoing(ids ...string) []contract.Outgoing {
	msgs := make([]contract.Outgoing, len(ids))
	for i, id := range ids {
		msgs[i] = contract.Outgoing{Message: &waybill.Message{ID: id, Source: "s", Topic: "t", Payload: []byte(id)}, DedupID: id}
	}
	return msgs
}

func send(t *testing.T, l *local, ids ...string) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	errs := l.Send(ctx, outgoing(ids...))()
	synctest.Wait() // what deliver has written may be read
	return errs
}

func wantRetryAfter(t *testing.T, err error, want time.Duration) {
	t.Helper()
	if after, ok := waybill.AfterOf(err); !ok || after != want || !waybill.IsUnavailable(err) {
		t.Errorf("result is %v (after %v), want unavailable after %v", err, after, want)
	}
}

func TestLocal_AckAndRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLocal()
		var order []string
		stop := listen(t, l, 10, func(d contract.Delivery) {
			m, err := d.Message()
			if err != nil || string(m.Payload) != m.ID {
				t.Errorf("Message() = %v, %v", m, err)
			}
			if !d.Redelivered() {
				t.Error("Redelivered() = false")
			}
			order = append(order, m.ID)
			if m.ID == "b" {
				err = d.Retry(t.Context(), time.Minute)
			} else {
				err = d.Ack(t.Context())
			}
			if err != nil {
				t.Errorf("settle: %v", err)
			}
			if err := d.Ack(t.Context()); err == nil {
				t.Error("a second settlement is no error")
			}
		})
		errs := send(t, l, "a", "b", "c")
		if errs[0] != nil || errs[2] != nil {
			t.Errorf("results are %v", errs)
		}
		wantRetryAfter(t, errs[1], time.Minute)
		if fmt.Sprint(order) != "[a b c]" {
			t.Errorf("delivered %v, want the order of Send", order)
		}
		stop()
		if len(l.flights) != 0 || len(l.waiting) != 0 {
			t.Errorf("left behind: %d flights, %d waiting", len(l.flights), len(l.waiting))
		}
	})
}

func TestLocal_NobodyListens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLocal()
		began := time.Now()
		err := send(t, l, "a")[0]
		if _, ok := waybill.AfterOf(err); !waybill.IsUnavailable(err) || ok {
			t.Errorf("result is %v, want the destination unavailable", err)
		}
		listen(t, l, 1, func(contract.Delivery) { t.Error("was delivered") })()
		if err := send(t, l, "a")[0]; !waybill.IsUnavailable(err) {
			t.Errorf("result after the end is %v", err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("took %v, want no wait", took)
		}
	})
}

// A handler that takes long does not hold the relay up, is not run twice meanwhile, and its
// outcome is there when the row comes again.
func TestLocal_SlowHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLocal()
		var held []contract.Delivery
		stop := listen(t, l, 1, func(d contract.Delivery) { held = append(held, d) })
		began := time.Now()
		errs := send(t, l, "a", "b") // there is a place for one only
		wantRetryAfter(t, errs[0], localRecheck)
		wantRetryAfter(t, errs[1], localRecheck)
		if took := time.Since(began); took != localPatience {
			t.Errorf("Send took %v, want %v", took, localPatience)
		}
		wantRetryAfter(t, send(t, l, "a")[0], localRecheck)
		if len(held) != 1 {
			t.Fatalf("delivered %d times, want once", len(held))
		}
		if err := held[0].Ack(t.Context()); err != nil {
			t.Error(err)
		}
		if err := send(t, l, "a")[0]; err != nil {
			t.Errorf("result is %v, want the outcome", err)
		}
		if len(held) != 1 {
			t.Errorf("delivered %d times, want once", len(held))
		}
		stop()
	})
}

// An outcome that nobody asks for is forgotten.
func TestLocal_ForgetsOutcomes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLocal()
		var held []contract.Delivery
		stop := listen(t, l, 5, func(d contract.Delivery) { held = append(held, d) })
		send(t, l, "a")
		if err := held[0].Ack(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(localMemory + time.Second)
		send(t, l, "b")
		if _, kept := l.flights[flightKey{"s", "a"}]; kept {
			t.Error("the outcome of a is kept")
		}
		stop()
	})
}

// What a subscription has left unsettled is delivered again by the next one.
func TestLocal_ListensAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLocal()
		var late contract.Delivery
		stop := listen(t, l, 1, func(d contract.Delivery) { late = d })
		send(t, l, "a")
		stop()
		delivered := 0
		stop = listen(t, l, 1, func(d contract.Delivery) {
			delivered++
			if err := d.Ack(t.Context()); err != nil {
				t.Error(err)
			}
		})
		if err := late.Ack(t.Context()); err != nil { // a handler that outlived its Subscribe
			t.Errorf("late Ack() = %v", err)
		}
		if err := send(t, l, "a")[0]; err != nil {
			t.Errorf("result is %v", err)
		}
		if delivered != 1 {
			t.Errorf("delivered %d times, want once", delivered)
		}
		stop()
	})
}
