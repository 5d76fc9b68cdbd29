package relay

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// inOrder fails unless the ids of each key have arrived in order, once each.
func inOrder(t *testing.T, ids []string, want int) {
	t.Helper()
	last := make(map[string]int)
	for _, id := range ids {
		cut := strings.LastIndex(id, "/")
		var n int
		fmt.Sscan(id[cut+1:], &n)
		if n != last[id[:cut]]+1 {
			t.Fatalf("%s arrived after number %d", id, last[id[:cut]])
		}
		last[id[:cut]] = n
	}
	if len(ids) != want {
		t.Errorf("%d messages have arrived, want %d", len(ids), want)
	}
}

func TestRelay_ReadsAheadAndKeepsOrder(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Pipelined, Strict} {
		src, broker := newFakeSource(), &fakeBroker{answer: func(contract.Outgoing) (time.Duration, error) { return time.Millisecond, nil }}
		for n := range 1000 {
			for key := range 5 {
				src.add(message("orders", fmt.Sprint("k", key), n+1))
			}
		}
		inBubble(t, src, []Destination{{Publisher: broker}}, Config{Mode: mode}, func(t *testing.T, r *Relay) {
			pass(time.Minute)
			inOrder(t, broker.ids(), 5000)
			if s := r.Status(); src.left() != 0 || s.Held != 0 || s.Published != 5000 {
				t.Errorf("%d left in the store, status %+v", src.left(), s)
			}
		})
		if src.claims > 40 && mode == Pipelined {
			t.Errorf("%d claims for 5000 messages", src.claims)
		}
	}
}

// TestRelay_FailureKeepsOrder: what follows a message that fails waits behind it, also when
// it is claimed, or in flight, while that is being recorded.
func TestRelay_FailureKeepsOrder(t *testing.T) {
	t.Parallel()
	src := newFakeSource()
	tries := make(map[string]int) // one batch at a time
	broker := &fakeBroker{answer: func(m contract.Outgoing) (time.Duration, error) {
		if tries[m.ID]++; tries[m.ID] <= 2 && strings.HasSuffix(m.ID, "3") {
			return time.Millisecond, errRefused
		}
		return time.Millisecond, nil
	}}
	inBubble(t, src, []Destination{{Publisher: broker}}, Config{Mode: Strict, Parallelism: 1}, func(t *testing.T, r *Relay) {
		for n := range 300 {
			src.add(message("orders", "k", n+1))
			pass(3 * time.Millisecond)
		}
		pass(10 * time.Minute)
		inOrder(t, broker.ids(), 300)
	})
}

func TestRelay_DeadLetterLetsTheKeyGoOn(t *testing.T) {
	t.Parallel()
	src := newFakeSource()
	broker := &fakeBroker{answer: func(m contract.Outgoing) (time.Duration, error) {
		if strings.HasSuffix(m.ID, "/2") {
			return 0, waybill.PermanentError(waybill.ReasonTooLarge, errRefused)
		}
		return 0, nil
	}}
	src.add(message("orders", "k", 1), message("orders", "k", 2), message("orders", "k", 3))
	inBubble(t, src, []Destination{{Publisher: broker}}, Config{Mode: Strict}, func(t *testing.T, _ *Relay) {
		pass(time.Second)
		if want := []string{"orders/k/1", "orders/k/3"}; !slices.Equal(broker.ids(), want) {
			t.Errorf("arrived: %v, want %v", broker.ids(), want)
		}
		if want := []string{"orders/k/2"}; !slices.Equal(src.buried(), want) {
			t.Errorf("dead: %v, want %v", src.buried(), want)
		}
	})
}

// TestRelay_OutageMovesNothing: while the only destination is away, messages stay where they
// are, no attempt is counted, and they go in order when it is back.
func TestRelay_OutageMovesNothing(t *testing.T) {
	t.Parallel()
	src := newFakeSource()
	var away atomic.Bool
	away.Store(true)
	broker := &fakeBroker{answer: func(contract.Outgoing) (time.Duration, error) {
		if away.Load() {
			return 0, waybill.UnavailableError(errRefused)
		}
		return 0, nil
	}}
	for n := range 300 {
		src.add(message("orders", "k", n+1))
	}
	inBubble(t, src, []Destination{{Publisher: broker}}, Config{}, func(t *testing.T, r *Relay) {
		pass(time.Minute)
		for _, row := range src.list() {
			if row.Waiting || row.Attempts > 0 {
				t.Fatalf("%s was moved or counted", row.Message.ID)
			}
		}
		away.Store(false)
		pass(20 * time.Second)
		inOrder(t, broker.ids(), 300)
	})
}

// TestRelay_SlowTopic: a topic that is not answered does not hold up others for longer than
// it takes to see that.
func TestRelay_SlowTopic(t *testing.T) {
	t.Parallel()
	src := newFakeSource()
	broker := &fakeBroker{answer: func(m contract.Outgoing) (time.Duration, error) {
		if m.Topic == "slow" {
			return time.Hour, nil
		}
		return 0, nil
	}}
	for n := range 5000 {
		src.add(message("slow", fmt.Sprint("s", n), 1))
	}
	for n := range 5000 {
		src.add(message("slow", fmt.Sprint("s", n), 2), message("quick", fmt.Sprint("q", n), 1))
	}
	inBubble(t, src, []Destination{{Publisher: broker}}, Config{}, func(t *testing.T, r *Relay) {
		pass(2 * time.Second)
		inOrder(t, broker.ids(), 5000)
		began := time.Now()
		src.add(message("quick", "new", 1))
		for !slices.Contains(broker.ids(), "quick/new/1") {
			pass(time.Millisecond)
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("a message of a quick topic takes %v next to a slow one", took)
		}
	})
}

// TestRelay_SlowDestination: one destination that is away does not hold up another.
func TestRelay_SlowDestination(t *testing.T) {
	t.Parallel()
	src := newFakeSource()
	var away atomic.Bool
	away.Store(true)
	bad := &fakeBroker{answer: func(contract.Outgoing) (time.Duration, error) {
		if away.Load() {
			return 0, waybill.UnavailableError(errRefused)
		}
		return 0, nil
	}}
	good := &fakeBroker{}
	topic := func(name string) func(*waybill.Message) bool {
		return func(m *waybill.Message) bool { return m.Topic == name }
	}
	for n := range 3000 {
		src.add(message("bad", "b", n+1))
	}
	for n := range 3000 {
		src.add(message("good", "g", n+1))
	}
	destinations := []Destination{{Name: "bad", Publisher: bad, Match: topic("bad")}, {Name: "good", Publisher: good, Match: topic("good")}}
	inBubble(t, src, destinations, Config{}, func(t *testing.T, _ *Relay) {
		pass(time.Second)
		inOrder(t, good.ids(), 3000)
		away.Store(false)
		pass(time.Minute)
		inOrder(t, bad.ids(), 3000)
	})
}

// TestRelay_SluggishDestination: nor does one that answers everything late.
func TestRelay_SluggishDestination(t *testing.T) {
	t.Parallel()
	src := newFakeSource()
	late := &fakeBroker{answer: func(contract.Outgoing) (time.Duration, error) { return 3 * time.Millisecond, nil }}
	quick := &fakeBroker{}
	topic := func(name string) func(*waybill.Message) bool {
		return func(m *waybill.Message) bool { return m.Topic == name }
	}
	for n := range 8000 {
		src.add(message("late", fmt.Sprint("l", n), 1))
	}
	for n := range 1000 {
		src.add(message("quick", "q", n+1))
	}
	destinations := []Destination{{Name: "late", Publisher: late, Match: topic("late")}, {Name: "quick", Publisher: quick, Match: topic("quick")}}
	inBubble(t, src, destinations, Config{Parallelism: 1}, func(t *testing.T, _ *Relay) {
		pass(3 * time.Second)
		inOrder(t, quick.ids(), 1000)
		pass(2 * time.Minute)
		inOrder(t, late.ids(), 8000)
	})
}

// TestRelay_TenantsShareARate (AS-21) with virtual time: a tenant with ten messages does not
// wait for the thousands of another.
func TestRelay_TenantsShareARate(t *testing.T) {
	t.Parallel()
	src, broker := newFakeSource(), &fakeBroker{}
	for n := range 3000 {
		m := message("orders", fmt.Sprint("l", n), 1)
		m.Tenant = "large"
		src.add(m)
	}
	inBubble(t, src, []Destination{{Publisher: broker, Rate: 100}}, Config{}, func(t *testing.T, _ *Relay) {
		pass(5 * time.Second)
		for n := range 10 {
			m := message("orders", fmt.Sprint("s", n), 1)
			m.Tenant = "small"
			src.add(m)
		}
		began := time.Now()
		small := func() (count int) {
			for _, id := range broker.ids() {
				if strings.HasPrefix(id, "orders/s") {
					count++
				}
			}
			return count
		}
		for small() < 10 && time.Since(began) < time.Minute {
			pass(time.Millisecond)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("ten messages of the small tenant took %v", took)
		}
		pass(time.Until(began.Add(15 * time.Second)))
		if n := len(broker.ids()); n > 100*20+100 || n < 100*20*9/10 {
			t.Errorf("%d messages in 20 s at a rate of 100 a second", n)
		}
		pass(20 * time.Second)
		if src.left() != 0 {
			t.Errorf("%d messages are left after 40 s", src.left())
		}
	})
}

// TestRelay_LeavingLanesGoStill: lanes above the share are released when nothing of them is
// in flight, and what was read ahead of them is left alone.
func TestRelay_LeavingLanesGoStill(t *testing.T) {
	t.Parallel()
	src := newFakeSource()
	broker := &fakeBroker{answer: func(contract.Outgoing) (time.Duration, error) { return 10 * time.Millisecond, nil }}
	for n := range 2000 {
		src.add(message("orders", fmt.Sprint("k", n%8), n/8+1))
	}
	inBubble(t, src, []Destination{{Publisher: broker}}, Config{BatchSize: 50}, func(t *testing.T, r *Relay) {
		pass(100 * time.Millisecond)
		src.mu.Lock()
		src.share = 2
		src.mu.Unlock()
		pass(r.cfg.RenewInterval + time.Second)
		if s := r.Status(); s.Lanes != 2 {
			t.Fatalf("%d lanes are owned, want the share", s.Lanes)
		}
		pass(time.Minute)
		for _, row := range src.list() {
			if slices.ContainsFunc(src.lanes, func(l contract.Lane) bool { return l.Number == row.Lane.Number }) {
				t.Fatalf("%s is left in an owned lane", row.Message.ID)
			}
		}
	})
}

// TestRelay_LaneThatComesBack: a lane that was lost and won again is read from its
// beginning, and what was in flight under the old epoch is not settled under it.
func TestRelay_LaneThatComesBack(t *testing.T) {
	t.Parallel()
	src := newFakeSource()
	broker := &fakeBroker{answer: func(contract.Outgoing) (time.Duration, error) { return 3 * time.Second, nil }}
	for n := range 5 {
		src.add(message("orders", "k", n+1))
	}
	inBubble(t, src, []Destination{{Publisher: broker}}, Config{BatchSize: 1}, func(t *testing.T, r *Relay) {
		pass(time.Second)
		src.mu.Lock()
		for i := range src.lanes {
			src.lanes[i].Epoch++
		}
		src.mu.Unlock()
		pass(time.Minute)
		ids := broker.ids()
		if want := "orders/k/1"; len(ids) != 6 || ids[0] != want || ids[1] != want {
			t.Errorf("arrived: %v, want the message that was in flight twice", ids)
		}
		inOrder(t, ids[1:], 5)
		if src.left() != 0 {
			t.Errorf("%d are left", src.left())
		}
	})
}

func TestRelay_SettlementIsRepeated(t *testing.T) {
	t.Parallel()
	src, broker := newFakeSource(), &fakeBroker{}
	src.refuse = waybill.UnavailableError(errRefused)
	for n := range 10 {
		src.add(message("orders", "k", n+1))
	}
	inBubble(t, src, []Destination{{Publisher: broker}}, Config{}, func(t *testing.T, _ *Relay) {
		pass(30 * time.Second)
		src.mu.Lock()
		src.refuse = nil
		src.mu.Unlock()
		pass(10 * time.Second)
		inOrder(t, broker.ids(), 10)
		if src.left() != 0 {
			t.Errorf("%d are left", src.left())
		}
	})
}

// TestRelay_PanicsAreSurvived: of a publisher, and of a function that chooses messages.
func TestRelay_PanicsAreSurvived(t *testing.T) {
	t.Parallel()
	src, broker := newFakeSource(), &fakeBroker{}
	panics := 3
	match := func(m *waybill.Message) bool {
		if panics--; panics >= 0 {
			panic("not now")
		}
		return true
	}
	for n := range 10 {
		src.add(message("orders", "k", n+1))
	}
	inBubble(t, src, []Destination{{Publisher: broker, Match: match}}, Config{}, func(t *testing.T, _ *Relay) {
		pass(time.Minute)
		inOrder(t, broker.ids(), 10)
	})
}
