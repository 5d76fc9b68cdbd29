package e2e

import (
	"errors"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/relay"
)

// TestRequeueCutOff (AS-25) cuts the store off in the middle of a requeue. Whatever became of it,
// the letter is requeued once by trying again, and its message is sent once, under its id,
// with attempts counted from zero.
//
//test:sessions
//test:pooled
func TestRequeueCutOff(t *testing.T) {
	t.Parallel()
	w, act := plainWorld(t), deadletter.Act{By: "test", Why: "cause is fixed"}
	w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
	broken := &recorder{fail: func(contract.Outgoing) error { return errors.New("broken") }}
	_, stop := w.startRelay(t, broken, relay.Config{Retry: waybill.RetryPolicy{MaxRetries: 2, BaseDelay: time.Millisecond}})
	letter := w.waitLetters(t, deadletter.Filter{}, 1)[0]
	stop()

	release := w.holdLetters(t)
	proxied, proxy := w.throughProxy(t)
	ended := make(chan error, 1)
	go func() {
		_, err := proxied.RequeueDeadLetter(t.Context(), letter.Number, act)
		ended <- err
	}()
	w.waitForWriter(t)
	proxy.Cut()
	if err := <-ended; !waybill.IsUnavailable(err) {
		t.Errorf("requeue without a store: %v, want an unavailable error", err)
	}
	release()

	again, err := w.store.RequeueDeadLetter(t.Context(), letter.Number, act)
	if err != nil {
		t.Fatalf("requeue again: %v", err)
	}
	t.Logf("the requeue that was cut off had been done: %v", !again)
	if twice, err := w.store.RequeueDeadLetter(t.Context(), letter.Number, act); err != nil || twice {
		t.Errorf("requeue once more = %v, %v; want false", twice, err)
	}
	if s := w.state(t, "m"); s.Attempts != 0 {
		t.Errorf("%d attempts after the requeue, want 0", s.Attempts)
	}
	fixed := &recorder{}
	w.startRelay(t, fixed, relay.Config{})
	w.waitStatus(t, "m", inspect.Published)
	if n := fixed.count("m"); n != 1 {
		t.Errorf("sent %d times, want once", n)
	}
}

// TestResolveAndUnknown (AS-25) resolves a letter, and asks for one that there is not.
//
//test:sessions
//test:pooled
func TestResolveAndUnknown(t *testing.T) {
	t.Parallel()
	w, act := plainWorld(t), deadletter.Act{By: "test", Why: "refunded by hand"}
	w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
	never := &recorder{fail: func(contract.Outgoing) error {
		return waybill.PermanentError(waybill.ReasonRejected, errors.New("never"))
	}}
	w.startRelay(t, never, relay.Config{})
	letter := w.waitLetters(t, deadletter.Filter{}, 1)[0]
	if ok, err := w.store.ResolveDeadLetter(t.Context(), letter.Number, act); err != nil || !ok {
		t.Fatalf("resolve = %v, %v; want true", ok, err)
	}
	w.waitLetters(t, deadletter.Filter{}, 0)
	l := w.waitLetters(t, deadletter.Filter{State: deadletter.Resolved}, 1)[0]
	if l.Resolution != act.Why || l.ResolvedAt == nil {
		t.Errorf("resolved letter = %+v, want the text and a time", l)
	}
	if _, err := w.store.RequeueDeadLetter(t.Context(), letter.Number, act); !errors.Is(err, deadletter.ErrResolved) {
		t.Errorf("requeue of a resolved letter: %v, want ErrResolved", err)
	}
	unknown := letter.Number + 1000
	if _, err := w.store.RequeueDeadLetter(t.Context(), unknown, act); !errors.Is(err, waybill.ErrNotFound) {
		t.Errorf("requeue of an unknown letter: %v, want ErrNotFound", err)
	}
	if _, err := w.store.ResolveDeadLetter(t.Context(), unknown, act); !errors.Is(err, waybill.ErrNotFound) {
		t.Errorf("resolve of an unknown letter: %v, want ErrNotFound", err)
	}
}
