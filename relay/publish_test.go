package relay

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/observe"
)

// forgetful is a broker that remembers deduplication ids for a minute.
type forgetful struct{ *fakeBroker }

func (forgetful) DedupWindow() time.Duration { return time.Minute }

// seenEvents keeps what is reported about deduplication that has expired.
type seenEvents struct {
	observe.Observer
	mu     sync.Mutex
	events []observe.Event
}

func (w *seenEvents) Observe(_ context.Context, e observe.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Op == observe.OpDedupExpired {
		e.IDs = slices.Clone(e.IDs)
		w.events = append(w.events, e)
	}
}

// troubled answers the attempts to send one message.
type troubled struct {
	results []error // in turn; the last one until the trouble is over
	over    time.Duration

	first time.Time
	tries int
}

func (b *troubled) answer(contract.Outgoing) (time.Duration, error) {
	if b.tries++; b.tries == 1 {
		b.first = time.Now()
	}
	if time.Since(b.first) > b.over {
		return 0, nil
	}
	return 0, b.results[min(b.tries, len(b.results))-1]
}

// TestRelay_TellsOfDedupExpired: what is accepted longer after an unanswered attempt than the
// broker remembers is reported once, and nothing else is.
func TestRelay_TellsOfDedupExpired(t *testing.T) {
	t.Parallel()
	away, silent := waybill.UnavailableError(errRefused), waybill.UnavailableError(context.DeadlineExceeded)
	lost := waybill.UnavailableError(contract.ErrConnectionLost)
	for _, c := range []struct {
		name    string
		trouble troubled
		want    int // messages
	}{
		{"no answer, then away for long", troubled{results: []error{silent, away}, over: 10 * time.Minute}, 1},
		{"connection lost, then away for long", troubled{results: []error{lost, away}, over: 10 * time.Minute}, 1},
		{"no answer for long", troubled{results: []error{silent}, over: 10 * time.Minute}, 1},
		{"no answer, then refused, then away for long", troubled{results: []error{silent, errRefused, away}, over: 10 * time.Minute}, 1},
		{"no answer, then away for a while", troubled{results: []error{silent, away}, over: 20 * time.Second}, 0},
		{"away for long, never sent", troubled{results: []error{away}, over: 10 * time.Minute}, 0},
		{"refused, then away for long", troubled{results: []error{errRefused, away}, over: 10 * time.Minute}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			src, seen := newFakeSource(), &seenEvents{Observer: quiet}
			broker := &fakeBroker{answer: c.trouble.answer}
			src.add(message("orders", "k", 1))
			inBubble(t, src, []Destination{{Publisher: forgetful{broker}}}, Config{Observer: seen}, func(t *testing.T, _ *Relay) {
				pass(time.Hour)
				if len(broker.ids()) != 1 {
					t.Errorf("%d messages have arrived, want 1", len(broker.ids()))
				}
				told := 0
				for _, e := range seen.events {
					told += e.Count
					if e.IDs[0] != "orders/k/1" || e.Topic != "orders" || e.Duration < c.trouble.over {
						t.Errorf("event %+v, want one about the message and the time since its first attempt", e)
					}
				}
				if told != c.want {
					t.Errorf("%d messages were reported, want %d", told, c.want)
				}
			})
		})
	}
}

// TestRelay_NoDedupNothingExpires: a broker that does not deduplicate, or does not know, has
// nothing to tell of.
func TestRelay_NoDedupNothingExpires(t *testing.T) {
	t.Parallel()
	src, seen := newFakeSource(), &seenEvents{Observer: quiet}
	trouble := troubled{results: []error{waybill.UnavailableError(context.DeadlineExceeded)}, over: 10 * time.Minute}
	broker := &fakeBroker{answer: trouble.answer}
	src.add(message("orders", "k", 1))
	inBubble(t, src, []Destination{{Publisher: broker}}, Config{Observer: seen}, func(t *testing.T, _ *Relay) {
		pass(time.Hour)
		if len(broker.ids()) != 1 || len(seen.events) != 0 {
			t.Errorf("%d messages have arrived, %d events, want 1 and none", len(broker.ids()), len(seen.events))
		}
	})
}
