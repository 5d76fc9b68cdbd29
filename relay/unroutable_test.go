package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/observe"
)

// pauses counts the pauses of topics.
type pauses struct {
	observe.Observer
	topics map[string]int
}

func (p *pauses) Observe(ctx context.Context, e observe.Event) {
	if e.Op == observe.OpPause {
		p.topics[e.Topic]++
	}
	p.Observer.Observe(ctx, e)
}

// TestRelay_BeforeTheFirstConsumer: a relay that begins before the first consumer of a topic is
// declared keeps the backlog of that topic, tries little of it, says so, and sends all of it in order
// once there is one. Other topics go on meanwhile.
func TestRelay_BeforeTheFirstConsumer(t *testing.T) {
	t.Parallel()
	src, seen := newFakeSource(), &pauses{Observer: quiet, topics: make(map[string]int)}
	var declared atomic.Bool
	var refused atomic.Int32
	broker := &fakeBroker{answer: func(m contract.Outgoing) (time.Duration, error) {
		if m.Topic == "new" && !declared.Load() {
			refused.Add(1)
			return time.Millisecond, waybill.PermanentError(waybill.ReasonUnroutable, errors.New("no queue is bound"))
		}
		return time.Millisecond, nil
	}}
	const keys, each = 50, 40
	for n := range each {
		for key := range keys {
			src.add(message("new", fmt.Sprint("k", key), n+1))
		}
	}
	inBubble(t, src, []Destination{{Publisher: broker}}, Config{Observer: seen}, func(t *testing.T, _ *Relay) {
		for n := range 100 {
			src.add(message("old", "k", n+1))
			pass(100 * time.Millisecond)
		}
		pass(10 * time.Second)
		inOrder(t, broker.ids(), 100)
		if n := refused.Load(); n > keys*each {
			t.Errorf("%d messages were refused, want fewer than there are", n)
		}
		if seen.topics["new"] == 0 || seen.topics["old"]+seen.topics[""] > 0 {
			t.Errorf("pauses by topic: %v, want some of the new one alone", seen.topics)
		}
		declared.Store(true)
		pass(2 * time.Minute)
		if len(src.buried()) > 0 {
			t.Errorf("%d dead letters, want none", len(src.buried()))
		}
		inOrder(t, slices.DeleteFunc(broker.ids(), func(id string) bool { return strings.HasPrefix(id, "old") }), keys*each)
	})
}

// TestRelay_NeverRoutable: what reaches nobody for as long as the retries last is a dead letter.
func TestRelay_NeverRoutable(t *testing.T) {
	t.Parallel()
	src := newFakeSource()
	broker := &fakeBroker{answer: func(m contract.Outgoing) (time.Duration, error) {
		return 0, waybill.PermanentError(waybill.ReasonUnroutable, errors.New("no queue is bound"))
	}}
	src.add(message("orders", "k", 1))
	inBubble(t, src, []Destination{{Publisher: broker}}, Config{}, func(t *testing.T, r *Relay) {
		pass(15 * time.Second)
		if len(src.buried()) > 0 {
			t.Errorf("dead letters: %v before the retries are used up", src.buried())
		}
		pass(2 * time.Minute)
		if !slices.Equal(src.buried(), []string{"orders/k/1"}) {
			t.Errorf("dead letters: %v, want the message", src.buried())
		}
	})
}
