package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/relay"
)

//test:sessions
func TestStrictKeepsOneOfAKeyInFlight(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	pub := &recorder{before: func(_ context.Context, msgs []contract.Outgoing) {
		keys := map[string]bool{}
		for _, m := range msgs {
			if keys[m.Key] {
				t.Errorf("two messages of key %s in one send", m.Key)
			}
			keys[m.Key] = true
		}
	}}
	msgs := numbered("m", "orders", 200)
	for i := range msgs {
		msgs[i].Key = fmt.Sprintf("k%d", i%7)
	}
	w.enqueue(t, msgs...)
	w.startRelay(t, pub, relay.Config{Mode: relay.Strict})
	eventually(t, "all are published", func() bool { return len(pub.ids()) == 200 })
	orderKept(t, pub)
}

// orderKept fails if the messages of a key, numbered mN, were not published in order.
func orderKept(t *testing.T, pub *recorder) {
	t.Helper()
	pub.mu.Lock()
	defer pub.mu.Unlock()
	last := map[string]int{}
	for _, m := range pub.sent {
		var n int
		if _, err := fmt.Sscanf(m.ID, "m%d", &n); err != nil {
			continue
		}
		if prev, ok := last[m.Key]; ok && n < prev {
			t.Errorf("key %s: m%d was published after m%d", m.Key, n, prev)
		}
		last[m.Key] = n
	}
}

// TestBlockedKeyWaits lets the first message of a key fail twice: the rest of the key waits
// behind it, other keys and the same key on another topic do not.
//
//test:sessions
func TestBlockedKeyWaits(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		var failures atomic.Int64
		pub := &recorder{fail: func(m contract.Outgoing) error {
			if m.ID == "m0" && failures.Add(1) <= 2 {
				return errors.New("not now")
			}
			return nil
		}}
		cfg := relay.Config{Mode: relay.Strict, Retry: waybill.RetryPolicy{BaseDelay: 300 * time.Millisecond}}
		keyed := func(id, topic, key string) waybill.Message { return waybill.Message{ID: id, Topic: topic, Key: key} }
		w.enqueue(t, keyed("m0", "orders", "a"), keyed("m1", "orders", "a"), keyed("b", "orders", "b"), keyed("other", "stock", "a"))
		w.startRelay(t, pub, cfg)
		eventually(t, "the others are published", func() bool { return pub.count("b") == 1 && pub.count("other") == 1 })
		w.enqueue(t, keyed("m2", "orders", "a")) // finds its key blocked
		w.waitStatus(t, "m2", inspect.Published)
		if ids := slices.DeleteFunc(pub.ids(), func(id string) bool { return id == "b" || id == "other" }); !slices.Equal(ids, []string{"m0", "m1", "m2"}) {
			t.Errorf("key a was published as %v, want m0, m1, m2", ids)
		}
		if failures.Load() < 3 {
			t.Errorf("m0 had %d attempts, want 3", failures.Load())
		}
		w.everyIDOnce(t, 5)
	})
}

//test:sessions
func TestFanout(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		good := &recorder{}
		var broken atomic.Bool
		broken.Store(true)
		flaky := &recorder{fail: func(contract.Outgoing) error {
			if broken.Load() {
				return errors.New("not now")
			}
			return nil
		}}
		only := func(topic string) func(*waybill.Message) bool {
			return func(m *waybill.Message) bool { return m.Topic == topic || m.Topic == "both" || m.Topic == "held" }
		}
		after := &recorder{}
		r, err := relay.NewFanout(w.store, []relay.Destination{
			{Name: "good", Publisher: good, Match: only("good")},
			{Name: "flaky", Publisher: flaky, Match: only("flaky")},
		}, quick(relay.Config{
			Mode:      relay.Strict, // so that order can be asserted while the broken one heals
			Retry:     waybill.RetryPolicy{MaxRetries: 100, BaseDelay: 30 * time.Millisecond, MaxDelay: 60 * time.Millisecond},
			Followers: []relay.Destination{{Name: "after", Publisher: after}},
		}))
		if err != nil {
			t.Fatal(err)
		}
		run(t, t.Context(), r.Run)
		w.enqueue(t,
			waybill.Message{ID: "m0", Topic: "both", Key: "k"}, waybill.Message{ID: "m1", Topic: "both", Key: "k"},
			waybill.Message{ID: "single", Topic: "good", Key: "k"}, waybill.Message{ID: "nowhere", Topic: "none"})
		eventually(t, "the good destination has its three", func() bool { return len(good.ids()) == 3 })
		w.waitStatus(t, "nowhere", inspect.Dead)
		if n := len(flaky.ids()); n != 0 {
			t.Errorf("%d accepted by the broken destination, want none", n)
		}
		broken.Store(false)
		eventually(t, "the flaky one catches up", func() bool { return len(flaky.ids()) == 2 })
		orderKept(t, flaky)
		for _, id := range []string{"m0", "m1", "single"} {
			eventually(t, id+" is followed up", func() bool { return after.count(id) >= 1 })
			eventually(t, id+" is published everywhere", func() bool {
				for _, s := range w.statuses(t, id) {
					if s != inspect.Published {
						return false
					}
				}
				return true
			})
			if n := good.count(id); n != 1 {
				t.Errorf("%s was sent to the good destination %d times, want once", id, n)
			}
		}
	})
}
