package relay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// wire is a publisher with one connection, which all batches in flight share: if it ends, none of
// them is confirmed.
type wire struct {
	cuts func(m contract.Outgoing) bool // whether a message ends the connection

	mu      sync.Mutex
	ended   chan struct{} // closed when the connection ends
	lost    int           // connections
	arrived []string      // ids
}

// longPauses is three times the longest pause of a destination.
const longPauses = 30 * time.Second

const roundTrip = 2 * time.Millisecond

func (w *wire) Send(_ context.Context, msgs []contract.Outgoing) func() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended == nil {
		w.ended = make(chan struct{})
	}
	ended := w.ended
	if slices.ContainsFunc(msgs, w.cuts) {
		close(w.ended)
		w.ended = nil
		w.lost++
	}
	return func() []error {
		select {
		case <-ended:
			return fillErrors(len(msgs), waybill.UnavailableError(contract.ErrConnectionLost))
		case <-time.After(roundTrip):
		}
		w.take(msgs)
		return make([]error, len(msgs))
	}
}

func (w *wire) take(msgs []contract.Outgoing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range msgs {
		w.arrived = append(w.arrived, m.ID)
	}
}

func (w *wire) ids() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.arrived)
}

// poison returns what the messages with the given ids do to a connection.
func poison(ids ...string) func(contract.Outgoing) bool {
	return func(m contract.Outgoing) bool { return slices.Contains(ids, m.ID) }
}

// inOrderBut is inOrder for messages of which some are dead letters.
func inOrderBut(t *testing.T, ids, dead []string, want int) {
	t.Helper()
	all := slices.Concat(ids, dead)
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	inOrder(t, all, want) // none is missing
	last := make(map[string]int)
	for _, id := range ids {
		key := id[:strings.LastIndex(id, "/")]
		if number(id) <= last[key] {
			t.Fatalf("%s arrived after number %d", id, last[key])
		}
		last[key] = number(id)
	}
}

func number(id string) (n int) {
	fmt.Sscan(id[strings.LastIndex(id, "/")+1:], &n)
	return n
}

// TestRelay_PoisonIsFound: some of 400 messages end each connection that they are sent on.
// They are dead letters, all others arrive in order, and those of other keys do not wait long.
// Some messages come later, for the poison that is found with nothing else left to be sent.
func TestRelay_PoisonIsFound(t *testing.T) {
	t.Parallel()
	const keys, each, more = 10, 40, 20
	for name, bad := range map[string][]string{
		"one":                {"orders/k3/37"},
		"two of one key":     {"orders/k3/37", "orders/k3/38"},
		"first of two keys":  {"orders/k3/1", "orders/k4/1"},
		"last of several":    {"orders/k0/40", "orders/k4/40", "orders/k9/40"},
		"in different parts": {"orders/k1/5", "orders/k2/20", "orders/k3/39"},
	} {
		for _, cfg := range []Config{{}, {Mode: Strict}, {Parallelism: 1}} {
			t.Run(fmt.Sprint(name, ", ", cfg.Mode, cfg.Parallelism), func(t *testing.T) {
				t.Parallel()
				src, w := newFakeSource(), &wire{cuts: poison(bad...)}
				for n := range each {
					for key := range keys {
						src.add(message("orders", fmt.Sprint("k", key), n+1))
					}
				}
				inBubble(t, src, []Destination{{Publisher: w}}, cfg, func(t *testing.T, _ *Relay) {
					pass(3 * time.Second)
					if n := len(w.ids()); n < (keys-len(bad))*each {
						t.Errorf("%d messages have arrived within 3 s, want at least those of the other keys", n)
					}
					for n := range more {
						src.add(message("orders", "more", n+1))
						pass(time.Second)
					}
					dead := slices.Sorted(slices.Values(src.buried()))
					if !slices.Equal(dead, slices.Sorted(slices.Values(bad))) {
						t.Errorf("dead letters: %v, want %v", dead, bad)
					}
					inOrderBut(t, w.ids(), dead, keys*each+more)
					if most := 10 * len(bad); w.lost > most {
						t.Errorf("%d connections were lost, want at most %d", w.lost, most)
					}
				})
			})
		}
	}
}

// TestRelay_OutageIsNoPoison: however long every connection ends as soon as something is sent on
// it, no message is blamed. All is published afterwards, in order.
func TestRelay_OutageIsNoPoison(t *testing.T) {
	t.Parallel()
	src := newFakeSource()
	var up atomic.Bool
	w := &wire{cuts: func(contract.Outgoing) bool { return !up.Load() }}
	inBubble(t, src, []Destination{{Publisher: w}}, Config{}, func(t *testing.T, _ *Relay) {
		for n := range 3 {
			up.Store(true)
			for key := range 100 {
				src.add(message("orders", fmt.Sprint("k", key), 2*n+1))
			}
			pass(time.Minute)
			up.Store(false)
			for key := range 100 {
				src.add(message("orders", fmt.Sprint("k", key), 2*n+2))
			}
			pass(time.Hour)
		}
		if w.lost < 500 {
			t.Errorf("%d connections were lost, want more", w.lost)
		}
		up.Store(true)
		pass(time.Minute)
		if len(src.buried()) != 0 {
			t.Errorf("dead letters: %v, want none", src.buried())
		}
		inOrder(t, w.ids(), 600)
	})
}

// TestRelay_FlappingBrokerIsNoPoison: the same while the broker takes some messages each second.
func TestRelay_FlappingBrokerIsNoPoison(t *testing.T) {
	t.Parallel()
	for _, up := range []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond} {
		src, start, healed := newFakeSource(), time.Time{}, atomic.Bool{}
		w := &wire{cuts: func(contract.Outgoing) bool { return !healed.Load() && time.Since(start)%(1013*time.Millisecond) > up }}
		inBubble(t, src, []Destination{{Publisher: w}}, Config{}, func(t *testing.T, _ *Relay) {
			start = time.Now()
			for n := range 500 {
				src.add(message(fmt.Sprint("t", n%3), fmt.Sprint("k", n%40), n/120+1))
				pass(130 * time.Millisecond)
			}
			healed.Store(true)
			pass(time.Minute)
			if len(src.buried()) != 0 || w.lost < 10 {
				t.Errorf("dead letters: %v, want none after %d lost connections", src.buried(), w.lost)
			}
			inOrder(t, w.ids(), 500)
		})
	}
}

// TestRelay_PoisonOnItsOwn: a message of which nobody can tell whether it or the broker is to blame
// waits, until others have shown that the broker is well.
func TestRelay_PoisonOnItsOwn(t *testing.T) {
	t.Parallel()
	src, w := newFakeSource(), &wire{cuts: poison("orders/k/1")}
	src.add(message("orders", "k", 1), message("orders", "k", 2))
	inBubble(t, src, []Destination{{Publisher: w}}, Config{}, func(t *testing.T, _ *Relay) {
		pass(10 * time.Minute)
		if len(src.buried())+len(w.ids()) != 0 {
			t.Errorf("dead: %v, arrived: %v, want neither yet", src.buried(), w.ids())
		}
		src.add(message("orders", "a", 1), message("orders", "a", 2)) // one for each time
		pass(longPauses)
		if n := len(w.ids()); n != 3 {
			t.Errorf("%d messages have arrived within %v, want 3", n, longPauses)
		}
		if !slices.Equal(src.buried(), []string{"orders/k/1"}) || !slices.Contains(w.ids(), "orders/k/2") {
			t.Errorf("dead: %v, arrived: %v, want the first dead and the one behind it published", src.buried(), w.ids())
		}
	})
}
