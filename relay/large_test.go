package relay

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/relaycore"
)

// TestRelay_LargeMessages: however many messages fit by their number, what the relay holds is bounded
// by bytes, too, also when large messages follow small ones.
func TestRelay_LargeMessages(t *testing.T) {
	t.Parallel()
	src, broker := newFakeSource(), &fakeBroker{answer: func(contract.Outgoing) (time.Duration, error) { return 10 * time.Millisecond, nil }}
	large := make([]byte, 4<<20)
	var r atomic.Pointer[Relay]
	most := 0
	pub := publisherFunc(func(ctx context.Context, msgs []contract.Outgoing) func() []error {
		most = max(most, heldBytes(r.Load()))
		return broker.Send(ctx, msgs)
	})
	inBubble(t, src, []Destination{{Publisher: pub}}, Config{Parallelism: 1}, func(t *testing.T, running *Relay) {
		r.Store(running)
		for n := range 3000 {
			src.add(message("orders", fmt.Sprint("k", n%10), n/10+1))
		}
		pass(time.Minute)
		for n := range 500 {
			m := message("orders", fmt.Sprint("k", n%10), 300+n/10+1)
			m.Payload = large
			src.add(m)
		}
		pass(10 * time.Minute)
		inOrder(t, broker.ids(), 3500)
		if limit := 16<<20 + len(large) + 3500*relaycore.EmptySize; most > limit {
			t.Errorf("%d bytes were held, want at most %d", most, limit)
		}
	})
}

type publisherFunc func(ctx context.Context, msgs []contract.Outgoing) func() []error

func (f publisherFunc) Send(ctx context.Context, msgs []contract.Outgoing) func() []error {
	return f(ctx, msgs)
}

func heldBytes(r *Relay) (n int) {
	r.latest.Load().ask(func(c *relaycore.Core) { n = c.Stats().Bytes })
	return n
}
