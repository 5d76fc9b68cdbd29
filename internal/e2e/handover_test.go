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

// How often a relay renews its lease at most until lanes are evenly shared again. It does so four times
// a second while it lacks lanes. Another one gives them up when it renews its own lease, which may be in
// 2 s, and when what is in progress with them has ended, which is allowed 4 s. The lanes of one that was
// killed are free when its lease has ended, of 8 s.
const (
	evenAfterStart = 4 * (2 + 4 + 2)
	evenAfterKill  = 4*8 + evenAfterStart
)

// TestReplicasHandOver starts, stops and kills relays that have work to do, and reads from
// the database after how many renewals those that are left share the lanes evenly.
func TestReplicasHandOver(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), newBroker(t, "nats")
	b.connect(t)
	w.keepEnqueueing(t)
	w.countRenewals(t)
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
	for _, node := range []string{"two", "three"} {
		h.live[node].kill()
		delete(h.live, node)
		h.evenWithin(t, evenAfterKill, "kill -9")
	}
}

// handOver are the relays among which lanes are shared.
type handOver struct {
	*world
	live map[string]*process
}

// evenWithin waits until the live relays own all lanes, none more than its share, and fails if one of
// them has renewed its lease more than limit times until then.
func (h *handOver) evenWithin(t *testing.T, limit int, after string) {
	t.Helper()
	h.exec(t, "TRUNCATE "+h.table("renewals"))
	var owned map[string]int
	defer func() {
		if t.Failed() {
			t.Logf("lanes: %v", owned)
		}
	}()
	eventually(t, "lanes are shared evenly after "+after, func() bool {
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
	if n := h.renewals(t); n > limit {
		t.Errorf("a relay renewed its lease %d times until the lanes were shared evenly after %s, want at most %d", n, after, limit)
	}
}

// countRenewals has the database count how often each relay renews its lease.
func (w *world) countRenewals(t *testing.T) {
	t.Helper()
	w.exec(t, "CREATE TABLE "+w.table("renewals")+" (node text)")
	w.exec(t, "CREATE FUNCTION "+w.table("count_renewal")+"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO "+
		w.table("renewals")+" VALUES (NEW.node); RETURN NULL; END $$")
	w.exec(t, "CREATE TRIGGER count_renewal AFTER UPDATE OF expires_at ON "+w.table("relays")+" FOR EACH ROW EXECUTE FUNCTION "+w.table("count_renewal")+"()")
}

// renewals returns how often the relay that did so most has renewed its lease.
func (w *world) renewals(t *testing.T) int {
	t.Helper()
	return w.number(t, "SELECT coalesce(max(n), 0) FROM (SELECT count(*) n FROM "+w.table("renewals")+" GROUP BY node) of")
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
