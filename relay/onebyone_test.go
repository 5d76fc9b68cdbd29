package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

func TestPublishOneByOne(t *testing.T) {
	t.Parallel()
	src := newFakeSource()
	var mu sync.Mutex
	var arrived []string
	tries, away := make(map[string]int), true
	publish := func(_ context.Context, m contract.Outgoing) error {
		mu.Lock()
		defer mu.Unlock()
		tries[m.ID]++
		switch {
		case away:
			return waybill.UnavailableError(errors.New("no connection"))
		case m.ID == "orders/k/3" && tries[m.ID] < 4:
			return errRefused
		case m.ID == "orders/p/1":
			panic("cannot be encoded")
		case m.DedupID != m.ID:
			return fmt.Errorf("DedupID = %q", m.DedupID)
		}
		arrived = append(arrived, m.ID)
		return nil
	}
	for n := range 20 {
		src.add(message("orders", "k", n+1))
	}
	src.add(message("orders", "p", 1))
	inBubble(t, src, []Destination{{Publisher: contract.PublishOneByOne(publish)}}, Config{Mode: Strict}, func(t *testing.T, _ *Relay) {
		pass(10 * time.Minute)
		if len(src.buried()) > 0 || len(arrived) > 0 {
			t.Fatalf("dead letters %v and arrived %v in an outage, want none", src.buried(), arrived)
		}
		mu.Lock()
		away = false
		mu.Unlock()
		pass(10 * time.Minute)
		inOrder(t, arrived, 20)
		if !slices.Equal(src.buried(), []string{"orders/p/1"}) {
			t.Errorf("dead letters: %v, want the one that panics", src.buried())
		}
	})
}
