package relay

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// TestRelay_Structured: each message is sent in the content mode of its destination, also again.
func TestRelay_Structured(t *testing.T) {
	t.Parallel()
	src := newFakeSource()
	for _, topic := range []string{"events", "orders"} {
		for n := range 3 {
			src.add(message(topic, "k", n))
		}
	}
	var mu sync.Mutex
	modes, tried := make(map[string]bool), make(map[string]bool)
	broker := publisherFunc(func(_ context.Context, msgs []contract.Outgoing) func() []error {
		mu.Lock()
		defer mu.Unlock()
		results := make([]error, len(msgs))
		for i, m := range msgs {
			if !tried[m.ID] {
				tried[m.ID], results[i] = true, waybill.RetryAfter(time.Second, errRefused)
				continue
			}
			modes[m.ID] = m.Structured
		}
		return func() []error { return results }
	})
	of := func(topic string) func(*waybill.Message) bool {
		return func(m *waybill.Message) bool { return m.Topic == topic }
	}
	destinations := []Destination{{Name: "a", Publisher: broker, Match: of("events"), Structured: true}, {Name: "b", Publisher: broker, Match: of("orders")}}
	inBubble(t, src, destinations, Config{}, func(t *testing.T, _ *Relay) {
		pass(time.Minute)
		want := make(map[string]bool)
		for id := range tried {
			want[id] = id[0] == 'e'
		}
		if !maps.Equal(modes, want) || len(modes) != 6 {
			t.Errorf("structured: %v, want %v", modes, want)
		}
	})
}
