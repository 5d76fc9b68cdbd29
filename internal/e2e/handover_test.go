package e2e

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill/outbox"
)

// How soon lanes are evenly shared again, with the relay's defaults.
const (
	evenAfterStart = slowdown * 5 * time.Second
	evenAfterKill  = slowdown * 10 * time.Second
)

// TestReplicasHandOver starts, stops and kills relays that have work to do, and reads from
// the database how soon those that are left share the lanes evenly.
func TestReplicasHandOver(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), newBroker(t, "nats")
	b.connect(t)
	w.keepEnqueueing(t)
	h := &handOver{world: w, live: make(map[string]*process)}
	start := func(node string) {
		h.live[node] = w.startChild(t, child{Role: "replica", Broker: b, Node: node})
		eventually(t, node+" has joined", func() bool {
			return w.number(t, "SELECT count(*) FROM "+w.table("relays")+" WHERE node = $1", node) == 1
		})
	}
	start("one")
	h.evenWithin(t, evenAfterStart, "the first start")
	start("two")
	h.evenWithin(t, evenAfterStart, "the second start")
	start("three")
	start("four")
	h.evenWithin(t, evenAfterStart, "two starts at a time")
	if err := h.live["one"].cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	delete(h.live, "one")
	h.evenWithin(t, evenAfterStart, "a clean stop")

	// A lease that was renewed at the very moment of the kill and a survivor that looked just
	// before it ended make ten seconds without a margin; wait for neither.
	eventually(t, "two is between two renewals", func() bool {
		return w.number(t, "SELECT count(*) FROM "+w.table("relays")+
			" WHERE node = 'two' AND expires_at - clock_timestamp() < interval '7.2 s'") == 1
	})
	h.live["two"].kill()
	delete(h.live, "two")
	h.evenWithin(t, evenAfterKill, "kill -9")
	h.live["three"].kill()
	delete(h.live, "three")
	h.evenWithin(t, evenAfterKill+slowdown*time.Second, "another kill -9, at any moment")
}

// handOver are the relays among which lanes are shared.
type handOver struct {
	*world
	live map[string]*process
}

// evenWithin waits until the live relays own all lanes, none more than its share.
func (h *handOver) evenWithin(t *testing.T, limit time.Duration, after string) {
	t.Helper()
	began := time.Now()
	var owned map[string]int
	defer func() {
		if t.Failed() {
			t.Logf("lanes: %v", owned)
		}
	}()
	within(t, limit, "lanes are shared evenly after "+after, func() bool {
		owned = h.owners(t)
		total, share := 0, (64+len(h.live)-1)/len(h.live)
		for node := range h.live {
			if owned[node] > share {
				return false
			}
			total += owned[node]
		}
		return total == 64
	})
	t.Logf("after %s: even within %v", after, time.Since(began).Round(10*time.Millisecond))
}

// keepEnqueueing commits messages of many keys until the story ends.
func (w *world) keepEnqueueing(t *testing.T) {
	t.Helper()
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for batch := 0; ; batch++ {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			msgs := numbered(fmt.Sprintf("m%d-", batch), "orders", 20)
			for i := range msgs {
				msgs[i].Key = fmt.Sprintf("k%d", (batch*20+i)%500)
			}
			_, err := w.writer.InTx(context.Background(), func(_ context.Context, _ pgx.Tx, rec *outbox.Recorder) error {
				rec.Record(msgs...)
				return nil
			})
			if err != nil {
				t.Errorf("enqueue: %v", err)
				return
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-ended })
}
