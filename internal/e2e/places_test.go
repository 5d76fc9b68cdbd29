package e2e

import (
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
)

// TestEachPlaceAddsUp (AS-23) has a relay dead-letter some of many messages, cut off from the
// store after the first failures and killed after the second: one letter each, after exactly
// as many attempts as were allowed, and every message in one place.
//
//test:sessions
//test:pooled
func TestEachPlaceAddsUp(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	settings := child{Role: "refuser", Retry: waybill.RetryPolicy{MaxRetries: 3, BaseDelay: 200 * time.Millisecond}}
	proxied, proxy := w.behindProxy(t)
	first := proxied.startChild(t, settings)
	w.enqueue(t, append(numbered("m", "orders", 40), numbered("bad", "orders", 5)...)...)
	waiting := func(attempts int) func() bool {
		return func() bool {
			return w.number(t, "SELECT count(*) FROM "+w.table("outbox_waiting")+" WHERE attempts >= $1", attempts) > 0
		}
	}
	eventually(t, "messages have failed once", waiting(1))
	proxy.Cut()
	eventually(t, "messages have failed twice", waiting(2))
	first.kill()
	w.everyIDOnce(t, 45)
	w.startChild(t, settings)
	for _, l := range w.waitLetters(t, deadletter.Filter{}, 5) {
		if l.Attempts != 4 || l.Reason != waybill.ReasonExhausted || l.Error != "still broken" || !badID(l.Message.ID) || l.LastFailed.Before(l.FirstFailed) {
			t.Errorf("letter = %+v, want a bad message after 4 attempts", l)
		}
	}
	eventually(t, "all others are published", func() bool {
		return w.number(t, "SELECT count(*) FROM "+w.table("messages")+" WHERE status = 'Published'") == 40
	})
	w.everyIDOnce(t, 45)
}
