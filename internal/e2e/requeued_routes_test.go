package e2e

import (
	"sync/atomic"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/relay"
)

// TestRequeuedIsRouted: of several destinations none matches a message; when it is requeued, two do.
//
//test:sessions
func TestRequeuedIsRouted(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		var known atomic.Bool
		match := func(m *waybill.Message) bool { return m.Topic == "invoices" && known.Load() }
		billing, archive := &recorder{}, &recorder{}
		r, err := relay.NewFanout(w.store, []relay.Destination{
			{Name: "billing", Publisher: billing, Match: match}, {Name: "archive", Publisher: archive, Match: match},
		}, quick(relay.Config{}))
		if err != nil {
			t.Fatal(err)
		}
		run(t, t.Context(), r.Run)
		w.enqueue(t, waybill.Message{ID: "early", Topic: "invoices", Key: "k"})
		letter := w.waitLetters(t, deadletter.Filter{}, 1)[0]
		if letter.Reason != waybill.ReasonUnroutable || letter.Destination != "" {
			t.Errorf("letter = %+v, want it unroutable, and for no destination", letter)
		}
		known.Store(true)
		if ok, err := w.store.RequeueDeadLetter(t.Context(), letter.Number, deadletter.Act{By: "ann"}); err != nil || !ok {
			t.Fatalf("RequeueDeadLetter() = %v, %v", ok, err)
		}
		eventually(t, "both destinations have it", func() bool { return billing.count("early") == 1 && archive.count("early") == 1 })
		eventually(t, "it is published to both, and nowhere else", func() bool {
			states, err := w.store.MessageStates(t.Context(), "early")
			if err != nil || len(states) != 2 {
				return false
			}
			return states[0].Status == inspect.Published && states[1].Status == inspect.Published
		})
	})
}
