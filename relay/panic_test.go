package relay

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/observe"
)

// TestRelay_MatchFails: a Match that panics concerns its own destination and message. A message
// that was published is not published again; one whose follower cannot be asked waits for that
// follower, and becomes its dead letter in the end.
func TestRelay_MatchFails(t *testing.T) {
	t.Parallel()
	src, broker, follower := newFakeSource(), &fakeBroker{}, &fakeBroker{}
	follow := Destination{Name: "local:f", Publisher: follower, Match: func(m *waybill.Message) bool {
		if m.Topic == "bad" {
			panic("no match")
		}
		return true
	}}
	src.add(message("good", "k", 1), message("bad", "k", 1), message("good", "k", 2))
	cfg := Config{Followers: []Destination{follow}, Retry: waybill.RetryPolicy{MaxRetries: 1}}
	inBubble(t, src, []Destination{{Publisher: broker}}, cfg, func(t *testing.T, _ *Relay) {
		pass(10 * time.Minute)
		want := []string{"bad/k/1", "good/k/1", "good/k/2"}
		if got := slices.Sorted(slices.Values(broker.ids())); !slices.Equal(got, want) {
			t.Errorf("published: %v, want %v", got, want)
		}
		if want := []string{"good/k/1", "good/k/2"}; !slices.Equal(follower.ids(), want) {
			t.Errorf("the follower got %v, want %v", follower.ids(), want)
		}
		if !slices.Equal(src.buried(), []string{"bad/k/1"}) || src.left() != 0 {
			t.Errorf("dead: %v and %d left, want the one of which the follower could not be asked", src.buried(), src.left())
		}
	})
}

// TestRelay_MatchFailsForAWhile: a message that could not be routed goes when its destination can be
// asked again, also where destinations have names.
func TestRelay_MatchFailsForAWhile(t *testing.T) {
	t.Parallel()
	src, a, b := newFakeSource(), &fakeBroker{}, &fakeBroker{}
	fails := 2
	match := func(m *waybill.Message) bool {
		if m.Topic != "a" {
			return false
		}
		if fails--; fails >= 0 {
			panic("not now")
		}
		return true
	}
	src.add(message("a", "k", 1), message("b", "k", 1))
	inBubble(t, src, []Destination{
		{Name: "a", Publisher: a, Match: match},
		{Name: "b", Publisher: b, Match: func(m *waybill.Message) bool { return m.Topic == "b" }},
	}, Config{}, func(t *testing.T, _ *Relay) {
		pass(time.Minute)
		if !slices.Equal(a.ids(), []string{"a/k/1"}) || !slices.Equal(b.ids(), []string{"b/k/1"}) {
			t.Errorf("a got %v and b got %v, want one message each", a.ids(), b.ids())
		}
	})
}

// bomb is an observer that panics, each time.
type bomb struct{ atStart bool }

func (o bomb) Start(ctx context.Context, _ observe.Op, _ ...*waybill.Message) (context.Context, func(error)) {
	if o.atStart {
		panic("at the start")
	}
	return ctx, func(error) { panic("at the end") }
}

func (bomb) Observe(context.Context, observe.Event) { panic("in an event") }

// TestRelay_ObserverPanics: an observer that panics changes nothing about messages.
func TestRelay_ObserverPanics(t *testing.T) {
	t.Parallel()
	for _, atStart := range []bool{true, false} {
		src, broker := newFakeSource(), &fakeBroker{}
		for n := range 10 {
			src.add(message("orders", "k", n+1))
		}
		inBubble(t, src, []Destination{{Publisher: broker}}, Config{Observer: bomb{atStart}}, func(t *testing.T, _ *Relay) {
			pass(time.Minute)
			inOrder(t, broker.ids(), 10)
			if src.left() != 0 {
				t.Errorf("%d are left", src.left())
			}
		})
	}
}

// fragile is a publisher of which everything but Send itself panics.
type fragile struct{ *fakeBroker }

func (fragile) DedupWindow() time.Duration { panic("no window") }

// faulty is an error that cannot be read.
type faulty struct{ text *string }

func (f *faulty) Error() string { return *f.text }

// TestRelay_PublisherPanicsBeside: what a publisher does wrong apart from sending is the failure of
// the message concerned at most.
func TestRelay_PublisherPanicsBeside(t *testing.T) {
	t.Parallel()
	src, broker := newFakeSource(), &fakeBroker{}
	lost := true
	broker.answer = func(m contract.Outgoing) (time.Duration, error) {
		switch {
		case m.Topic == "unreadable":
			return 0, (*faulty)(nil)
		case lost:
			lost = false
			return 0, waybill.UnavailableError(errors.Join(errRefused, contract.ErrConnectionLost))
		}
		return 0, nil
	}
	src.add(message("unreadable", "k", 1), message("orders", "k", 1))
	cfg := Config{Retry: waybill.RetryPolicy{MaxRetries: 1}}
	inBubble(t, src, []Destination{{Publisher: fragile{broker}}}, cfg, func(t *testing.T, _ *Relay) {
		pass(10 * time.Minute)
		if !slices.Equal(broker.ids(), []string{"orders/k/1"}) || !slices.Equal(src.buried(), []string{"unreadable/k/1"}) {
			t.Errorf("arrived: %v, dead: %v; want one each", broker.ids(), src.buried())
		}
	})
}
