package e2e

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/compat"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/observe"
)

// ownStore is an inbox with two methods, as a program may have written it for itself.
type ownStore struct {
	mu   sync.Mutex
	done map[string]bool
}

func (s *ownStore) IsProcessed(_ context.Context, key string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done[key], nil
}

func (s *ownStore) MarkProcessed(_ context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[key] = true
	return nil
}

func (s *ownStore) keys() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.done)
}

// TestLeasedOnAStoreOfOnesOwn: a consumer runs on a store that knows no leases. What was
// processed is skipped, what fails is tried as often as was asked, then dead-lettered, and the
// keys are those of the older contract.
func TestLeasedOnAStoreOfOnesOwn(t *testing.T) {
	t.Parallel()
	b, own := membroker.New(), &ownStore{done: map[string]bool{"rabbit:mailer:order.created:before": true}}
	store, err := compat.NewCheckThenAct(own)
	if err != nil {
		t.Fatal(err)
	}
	letters := make(chan inbox.Letter, 10)
	var mu sync.Mutex
	calls := map[string]int{}
	ops := newOpCounter()
	c, err := consumer.NewLeased(b, consumer.Subscription{Group: "mailer", Topics: []string{"orders"}}, store,
		func(_ context.Context, m *waybill.Message) error {
			mu.Lock()
			defer mu.Unlock()
			if calls[m.ID]++; m.ID == "broken" {
				return errors.New("still broken")
			}
			return nil
		},
		consumer.Leases{Bus: "rabbit", Letters: consumer.LettersTo(func(_ context.Context, l inbox.Letter) error {
			letters <- l
			return nil
		})},
		consumer.Config{Observer: ops, Retry: waybill.RetryPolicy{MaxRetries: 2, BaseDelay: 10 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	inBackground(t, c.Run)
	send := func(id string) {
		t.Helper()
		if err := b.PublishRaw("orders", nil, map[string]string{"id": id, "type": "order.created", "specversion": "1.0"}, nil); err != nil {
			t.Fatalf("publish %s: %v", id, err)
		}
	}
	for _, id := range []string{"before", "ok", "broken"} {
		send(id)
	}
	if l := <-letters; l.Record.MessageID != "broken" || l.Attempts != 3 || l.Reason != waybill.ReasonExhausted {
		t.Errorf("letter of %q after %d attempts, %s", l.Record.MessageID, l.Attempts, l.Reason)
	}
	eventually(t, "the good one is marked", func() bool { return own.keys()["rabbit:mailer:order.created:ok"] })
	send("ok")
	eventually(t, "the copies are skipped", func() bool { return ops.count(observe.OpDuplicate) == 2 })
	mu.Lock()
	defer mu.Unlock()
	if want := map[string]int{"ok": 1, "broken": 3}; !maps.Equal(calls, want) {
		t.Errorf("the handler ran %v times, want %v; keys %v", calls, want, own.keys())
	}
}
