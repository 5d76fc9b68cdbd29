package consumer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/observe"
)

// failures are the ways in which a function of the user's fails without returning.
var failures = map[string]func(){
	"panics": func() { panic("user's function") },
	"exits":  runtime.Goexit,
}

// TestMessageKey_Fails: the message is a dead letter, and the process goes on.
func TestMessageKey_Fails(t *testing.T) {
	t.Parallel()
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				box := &boxStub{}
				sub := &listSubscriber{list: []*waybill.Message{{Topic: "orders", Source: "shop", Type: "placed"}}}
				c := newConsumer(t, sub, box, func(context.Context, int, *waybill.Message) error { return nil }, Config{
					MessageKey: func(*waybill.Message) (string, error) { fail(); return "", nil },
				})
				runUntilIdle(t, c)
				if box.letter == nil || box.letter.Reason != waybill.ReasonNoID || sub.acked.Load() != 1 {
					t.Errorf("letter = %+v, acknowledged %d, want one of reason no_id and 1", box.letter, sub.acked.Load())
				}
			})
		})
	}
}

// TestGiveUp_Fails: the message is dead-lettered without a final attempt, and its letter says why.
func TestGiveUp_Fails(t *testing.T) {
	t.Parallel()
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				box := &boxStub{}
				sub := &listSubscriber{list: []*waybill.Message{{ID: "m", Topic: "orders", Source: "shop", Type: "placed"}}}
				handler := func(context.Context, int, *waybill.Message) error {
					return waybill.PermanentError(waybill.ReasonRejected, errors.New("never"))
				}
				c := newConsumer(t, sub, box, handler, Config{GiveUp: func(*waybill.Message) bool { fail(); return true }})
				runUntilIdle(t, c)
				if box.letter == nil || box.letter.Reason != waybill.ReasonRejected || !strings.Contains(box.letter.Error, "GiveUp") {
					t.Errorf("letter = %+v, want one of reason rejected that names GiveUp", box.letter)
				}
			})
		})
	}
}

// TestHandler_Fails: what does not return counts as an attempt, and holds up no key.
func TestHandler_Fails(t *testing.T) {
	t.Parallel()
	for name, fail := range failures {
		for _, order := range []Order{Unordered, OrderByKey} {
			t.Run(fmt.Sprint(name, order), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					box := &boxStub{}
					sub := &listSubscriber{list: []*waybill.Message{{ID: "m", Topic: "orders", Source: "shop", Type: "placed", Key: "k"}}}
					handler := func(context.Context, int, *waybill.Message) error { fail(); return nil }
					c := newConsumer(t, sub, box, handler, Config{Order: order, Retry: waybill.RetryPolicy{MaxRetries: -1}})
					runUntilIdle(t, c)
					if box.letter == nil || box.letter.Attempts != 1 || sub.acked.Load() != 1 {
						t.Errorf("letter = %+v, acknowledged %d, want one after 1 attempt and 1", box.letter, sub.acked.Load())
					}
				})
			})
		}
	}
}

// TestObserver_Fails: an observer that panics changes nothing about the messages.
func TestObserver_Fails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		box := &boxStub{}
		sub := &listSubscriber{list: []*waybill.Message{{ID: "m", Topic: "orders", Source: "shop", Type: "placed"}}}
		handler := func(context.Context, int, *waybill.Message) error { return nil }
		c := newConsumer(t, sub, box, handler, Config{Observer: brokenObserver{}})
		runUntilIdle(t, c)
		if !box.done || sub.acked.Load() != 1 {
			t.Errorf("processed = %v, acknowledged %d, want true and 1", box.done, sub.acked.Load())
		}
	})
}

// TestLettersTo_Fails: the message stays with the broker.
func TestLettersTo_Fails(t *testing.T) {
	t.Parallel()
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored, err := LettersTo(func(context.Context, inbox.Letter) error { fail(); return nil }).bury(t.Context(), inbox.Letter{})
			if stored || err == nil {
				t.Errorf("bury() = %v, %v, want false and an error", stored, err)
			}
		})
	}
}

type brokenObserver struct{}

func (brokenObserver) Start(context.Context, observe.Op, ...*waybill.Message) (context.Context, func(error)) {
	panic("user's observer")
}

func (brokenObserver) Observe(context.Context, observe.Event) { panic("user's observer") }
