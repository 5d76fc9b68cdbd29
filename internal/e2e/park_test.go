package e2e

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/relay"
)

// sickBroker accepts everything but what is configured to fail, and counts the attempts.
type sickBroker struct {
	recorder
	mu       sync.Mutex
	attempts map[string]int
	order    []string       // every attempt, in order
	failing  map[string]int // how many attempts of a message fail
}

func newSickBroker(failing map[string]int) *sickBroker {
	b := &sickBroker{attempts: map[string]int{}, failing: failing}
	b.fail = func(m contract.Outgoing) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.attempts[m.ID]++
		b.order = append(b.order, m.ID)
		if b.attempts[m.ID] <= b.failing[m.ID] {
			return errors.New("not now")
		}
		return nil
	}
	return b
}

func (b *sickBroker) heal(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failing[id] = 0
}

// attempted returns the attempts at messages whose id begins so, in order.
func (b *sickBroker) attempted(prefix string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []string
	for _, id := range b.order {
		if strings.HasPrefix(id, prefix) {
			list = append(list, id)
		}
	}
	return list
}

// ofKey returns three messages of a key, the first of which is going to fail.
func ofKey(topic, key string) []waybill.Message {
	var list []waybill.Message
	for _, n := range []string{"1", "2", "3"} {
		list = append(list, waybill.Message{ID: key + n, Topic: topic, Key: key})
	}
	return list
}

// wantAttempts waits until the last message of a key is published and checks the attempts at
// all of them.
func wantAttempts(t *testing.T, b *sickBroker, key string, want ...string) {
	t.Helper()
	last := want[len(want)-1]
	eventually(t, last+" is published", func() bool { return b.count(last) == 1 })
	if got := b.attempted(key); !slices.Equal(got, want) {
		t.Errorf("attempts at key %s: %v, want %v", key, got, want)
	}
}

// TestOrderPolicies (AS-12): the first message of a key fails twice, and is dead-lettered in another
// key. What follows it waits, waits for the dead letter too, or goes on; another key is
// not affected.
//
//test:sessions
//test:pooled
func TestOrderPolicies(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		b := newSickBroker(map[string]int{
			"block-a1": 2, "park-a1": 2, "skip-a1": 2,
			"block-p1": 3, "park-p1": 3, "park-q1": 3, "skip-p1": 3,
		})
		cfg := relay.Config{
			Mode:       relay.Strict, // so that order can be asserted to the last message
			Retry:      waybill.RetryPolicy{MaxRetries: 2, BaseDelay: 50 * time.Millisecond},
			TopicOrder: map[string]relay.OrderPolicy{"park": relay.Park, "skip": relay.Skip},
		}
		for _, topic := range []string{"block", "park", "skip"} {
			for _, key := range []string{"-a", "-p", "-b"} {
				w.enqueue(t, ofKey(topic, topic+key)...)
			}
		}
		w.enqueue(t, ofKey("park", "park-q")...)
		w.startRelay(t, b, cfg)

		for _, topic := range []string{"block", "park", "skip"} {
			wantAttempts(t, b, topic+"-b", topic+"-b1", topic+"-b2", topic+"-b3")
		}
		wantAttempts(t, b, "block-a", "block-a1", "block-a1", "block-a1", "block-a2", "block-a3")
		wantAttempts(t, b, "block-p", "block-p1", "block-p1", "block-p1", "block-p2", "block-p3")
		wantAttempts(t, b, "park-a", "park-a1", "park-a1", "park-a1", "park-a2", "park-a3")
		wantAttempts(t, b, "skip-a", "skip-a1", "skip-a2", "skip-a3", "skip-a1", "skip-a1")
		w.waitStatus(t, "skip-p1", inspect.Dead)
		if got := b.attempted("skip-p"); !slices.Equal(got, []string{"skip-p1", "skip-p2", "skip-p3", "skip-p1", "skip-p1"}) {
			t.Errorf("attempts at key skip-p: %v, want the others after the first attempt at skip-p1", got)
		}

		w.waitStatus(t, "park-p1", inspect.Dead)
		w.waitStatus(t, "park-q1", inspect.Dead)
		w.enqueue(t, waybill.Message{ID: "park-p4", Topic: "park", Key: "park-p"}) // joins the others behind the letter
		for _, id := range []string{"park-p2", "park-p3", "park-p4", "park-q2", "park-q3"} {
			w.waitStatus(t, id, inspect.Waiting)
			if due := w.state(t, id).DueAt; due != nil {
				t.Errorf("%s is due at %v while its key is parked", id, due)
			}
		}
		if n := b.count("park-p2") + b.count("park-p3") + b.count("park-q2") + b.count("park-q3"); n != 0 {
			t.Errorf("%d messages of parked keys were published", n)
		}
		b.heal("park-p1")
		if ok, err := w.store.RequeueDeadLetter(t.Context(), w.letterOf(t, "park-p1"), deadletter.Act{By: "test"}); err != nil || !ok {
			t.Fatalf("requeue = %v, %v", ok, err)
		}
		if ok, err := w.store.ResolveDeadLetter(t.Context(), w.letterOf(t, "park-q1"), deadletter.Act{By: "test", Why: "refunded by hand"}); err != nil || !ok {
			t.Fatalf("resolve = %v, %v", ok, err)
		}
		wantAttempts(t, b, "park-p", "park-p1", "park-p1", "park-p1", "park-p1", "park-p2", "park-p3", "park-p4")
		wantAttempts(t, b, "park-q", "park-q1", "park-q1", "park-q1", "park-q2", "park-q3")
		w.waitStatus(t, "park-p4", inspect.Published)
		w.waitStatus(t, "park-q3", inspect.Published)
		w.everyIDOnce(t, 31)
	})
}

// letterOf returns the number of the dead letter of a message.
func (w *world) letterOf(t *testing.T, id string) int64 {
	t.Helper()
	letters, err := w.store.DeadLetters(t.Context(), deadletter.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range letters {
		if l.Message.ID == id {
			return l.Number
		}
	}
	t.Fatalf("message %s has no dead letter", id)
	return 0
}

// optionOrder: the policy of all topics, and that of one.
func optionOrder(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	b := newSickBroker(map[string]int{"s1": 1, "b1": 1})
	w.enqueue(t, slices.Concat(ofKey("skipping", "s"), ofKey("blocking", "b"))...)
	w.startRelay(t, b, relay.Config{
		Mode: relay.Strict, Retry: waybill.RetryPolicy{MaxRetries: 2, BaseDelay: 50 * time.Millisecond},
		Order: relay.Skip, TopicOrder: map[string]relay.OrderPolicy{"blocking": relay.Block},
	})
	wantAttempts(t, b, "s", "s1", "s2", "s3", "s1")
	wantAttempts(t, b, "b", "b1", "b1", "b2", "b3")
}

// optionMaxParked: at the limit nothing new is claimed, what is due goes on; below it the rest
// goes, too.
func optionMaxParked(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]relay.Config{
		"keys":     {MaxParkedKeys: 2},
		"messages": {MaxParkedMessages: 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := plainWorld(t)
			b := newSickBroker(map[string]int{"x1": 1, "y1": 1, "retried": 1 << 30})
			fail := b.fail
			b.fail = func(m contract.Outgoing) error {
				err := fail(m)
				if m.ID != "retried" && err != nil {
					return waybill.PermanentError(waybill.ReasonRejected, err)
				}
				return err
			}
			cfg.Order, cfg.Mode = relay.Park, relay.Strict
			cfg.Retry = waybill.RetryPolicy{MaxRetries: 1 << 20, BaseDelay: 20 * time.Millisecond, MaxDelay: 20 * time.Millisecond}
			w.enqueue(t, slices.Concat(ofKey("orders", "x"), ofKey("orders", "y"))...)
			w.enqueue(t, waybill.Message{ID: "retried", Topic: "orders", Key: "z"})
			r, _ := w.startRelay(t, b, cfg)
			eventually(t, "there is back-pressure", func() bool { return r.Status().BackPressure })
			if s := r.Status(); s.ParkedKeys != 2 || s.Parked != 4 {
				t.Errorf("status = %d keys, %d messages, want 2, 4", s.ParkedKeys, s.Parked)
			}
			w.enqueue(t, waybill.Message{ID: "new", Topic: "orders"})
			b.heal("retried")
			w.waitStatus(t, "retried", inspect.Published)
			if b.count("new") != 0 {
				t.Error("a new message was published at the limit")
			}
			w.waitStatus(t, "new", inspect.Pending)
			if ok, err := w.store.ResolveDeadLetter(t.Context(), w.letterOf(t, "x1"), deadletter.Act{By: "test"}); err != nil || !ok {
				t.Fatalf("resolve = %v, %v", ok, err)
			}
			w.waitStatus(t, "x3", inspect.Published)
			w.waitStatus(t, "new", inspect.Published)
			if r.Status().BackPressure {
				t.Error("the status still tells of back-pressure")
			}
		})
	}
}
