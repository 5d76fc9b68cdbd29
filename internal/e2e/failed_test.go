package e2e

import (
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/observe"
)

// TestFailedIsVisible (AS-27) gives messages up while dead letters are disabled, with a kill in
// the middle: each ends as Failed, with all its attempts, is counted, and can be requeued.
//
//test:sessions
//test:pooled
func TestFailedIsVisible(t *testing.T) {
	onBothSides(t, func(t *testing.T, w *world, b brokerSettings, side failingSide) {
		settings := child{Role: side.role, Broker: b, NoLetters: true, Retry: waybill.RetryPolicy{MaxRetries: 2, BaseDelay: 200 * time.Millisecond}}
		first := w.startChild(t, settings)
		side.send(t, w, b, numbered("bad", "orders", 3)...)
		eventually(t, "one has failed", func() bool {
			return w.number(t, "SELECT count(*) FROM "+w.table(side.table)+" WHERE attempts > 0") > 0
		})
		first.kill()
		second := w.startChild(t, settings)
		letters := w.waitLetters(t, deadletter.Filter{}, 3)
		for _, l := range letters {
			if !l.Failed || l.Attempts != 3 || l.Reason != waybill.ReasonExhausted {
				t.Errorf("letter = %+v, want it Failed, exhausted after 3 attempts", l)
			}
		}
		second.wait(t, string(observe.OpFailed))
		second.kill()
		if side.role == "refuser" {
			w.wantFailed(t, 3)
		}
		if ok, err := w.store.RequeueDeadLetter(t.Context(), letters[0].Number, deadletter.Act{By: "test"}); err != nil || !ok {
			t.Errorf("requeue of a Failed message = %v, %v; want true", ok, err)
		}
	})
}

// wantFailed checks that the outbox counts n messages as Failed, and no others.
func (w *world) wantFailed(t *testing.T, n int) {
	t.Helper()
	stats, err := w.store.OutboxStats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stats {
		if s.Topic == "orders" && (s.Status != inspect.Failed || s.Count != int64(n)) {
			t.Errorf("%d messages are %s, want %d Failed and no others", s.Count, s.Status, n)
		}
	}
	w.everyIDOnce(t, n)
}
