package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
)

// placedQueue is a queue to which messages go back at their places. It delivers from there again only when a new
// subscription begins, as a broker does that gives all back at the end of one.
type placedQueue struct{ *queueSubscriber }

func (s placedQueue) Subscribe(ctx context.Context, prefetch int, deliver func(contract.Delivery)) error {
	return s.queueSubscriber.Subscribe(ctx, prefetch, func(d contract.Delivery) { deliver(placedDelivery{d.(*queueDelivery)}) })
}

type placedDelivery struct{ *queueDelivery }

func (d placedDelivery) Return(context.Context) error {
	d.sub.mu.Lock()
	defer d.sub.mu.Unlock()
	d.sub.ready = append(d.sub.ready, &queued{d.q.m, true})
	slices.SortFunc(d.sub.ready, func(a, b *queued) int { return cmp.Compare(a.m.ID, b.m.ID) })
	d.settle()
	return nil
}

// batchBox is a memBox for batches.
type batchBox struct{ *memBox }

func (b batchBox) ProcessBatch(ctx context.Context, recs []inbox.Record, fn func(ctx context.Context, tx int, fresh []int) error) ([]inbox.Outcome, error) {
	fresh := make([]int, 0, len(recs))
	outcomes := make([]inbox.Outcome, len(recs))
	b.mu.Lock()
	for i, rec := range recs {
		if outcomes[i] = inbox.Processed; b.done[rec.Key] {
			outcomes[i] = inbox.Duplicate
			continue
		}
		fresh = append(fresh, i)
	}
	b.mu.Unlock()
	if err := fn(ctx, 0, fresh); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range fresh {
		b.done[recs[i].Key] = true
	}
	return outcomes, nil
}

// TestPause_KeepsOrder: whatever a consumer pauses for in the middle of, the messages of a key are handled in order.
func TestPause_KeepsOrder(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]struct {
		lasts time.Duration // of the handler of the first message
		fails bool          // at first
	}{
		"the handler ends before the pause":  {1500 * time.Millisecond, false},
		"the handler fails before the pause": {1500 * time.Millisecond, true},
		"the handler ends in the pause":      {2500 * time.Millisecond, false},
		"the handler fails in the pause":     {2500 * time.Millisecond, true},
		"the handler ends after the pause":   {20 * time.Second, false},
		"the handler fails after the pause":  {20 * time.Second, true},
	} {
		for _, batch := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, batches of %d", name, batch), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					msgs := orders("m", "k", 10)
					sub := placedQueue{newQueue(msgs...)}
					var mu sync.Mutex
					var done []string
					failing := first.fails
					handler := func(_ context.Context, _ int, list []*waybill.Message) error {
						mu.Lock()
						defer mu.Unlock()
						for _, m := range list {
							if m.ID == msgs[0].ID {
								mu.Unlock()
								time.Sleep(first.lasts)
								mu.Lock()
								if failing {
									failing = false
									return errors.New("not at first")
								}
							}
						}
						for _, m := range list {
							done = append(done, m.ID)
						}
						return nil
					}
					c, err := NewBatch(gives{sub}, billing, contract.Inbox[int](batchBox{newBox()}), handler, Config{
						Order: OrderByKey, Concurrency: 4, Prefetch: 5, BatchSize: batch, Observer: &noted{},
					})
					if err != nil {
						t.Fatal(err)
					}
					stop := run(t, c)
					time.Sleep(2 * time.Second)
					c.pause(errAllFail) // for a second
					time.Sleep(5 * time.Minute)
					if err := stop(); err != nil {
						t.Errorf("Run() = %v", err)
					}
					var want []string
					for _, m := range msgs {
						want = append(want, m.ID)
					}
					if !slices.Equal(done, want) {
						t.Errorf("handled %v, want %v", done, want)
					}
				})
			})
		}
	}
}
