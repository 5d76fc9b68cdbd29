package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill/internal/testtools/ownserver"
)

// The stories of clusters take servers away, one at a time, while producers, relays and consumers are at work, of which some
// are killed and paused, too. "make clusters" runs them, on servers of their own.

// clusterRounds is how many servers are taken away.
const clusterRounds = 20

// cluster is a few servers that are one to their clients.
type cluster struct {
	hurt  func(rng *rand.Rand) string // takes a server away and says how
	mend  func()                      // brings it back and returns when it has all that the others have
	waits bool                        // nothing goes on until it is fixed
}

// tellOf runs a whole system while its cluster is hurt and fixed. In the end every order has its effect, once, and
// nothing else has one.
func (c cluster) tellOf(t *testing.T, w *world, b brokerSettings) {
	t.Helper()
	w.checkSoak(t, c.run(t, w, b))
}

// run lets the system go on while a server is away, unless it is to wait, and ends the producers.
func (c cluster) run(t *testing.T, w *world, b brokerSettings) *soak {
	t.Helper()
	b.subscribe(t, b.connect(t), "billing", "orders")
	s := newSoak(t, w, b, false)
	began := time.Now()
	for range clusterRounds {
		w.goesOn(t, len(b.topics()))
		what := c.hurt(s.rng)
		t.Logf("%v: %s", time.Since(began).Round(time.Second), what)
		s.done[what]++
		s.interrupt(t)
		s.interrupt(t)
		s.recoverAll(t)
		if !c.waits {
			w.goesOn(t, len(b.topics()))
		}
		c.mend()
	}
	w.goesOn(t, len(b.topics()))
	s.finish(t)
	return s
}

// progress is how many orders of a topic show that the system is at work: more than processes hold while a server is away.
const progress = 100

// goesOn waits until, from now on, a number of orders of each of a number of topics are taken, published, and have effects. Those need
// not be the same ones: what has piled up comes first.
func (w *world) goesOn(t *testing.T, topics int) {
	t.Helper()
	archive := w.table("outbox_archive")
	since := patiently[time.Time](t, w, "SELECT clock_timestamp()")
	for _, stage := range []struct{ what, from string }{
		{"orders are taken", w.table("messages") + " WHERE enqueued_at > $1"},
		{"messages are published", archive + " WHERE published_at > $1"},
		{"messages have effects", w.table("effects") + " e JOIN " + archive + " a ON a.id = e.message_id WHERE e.at > $1"},
	} {
		working := fmt.Sprintf("SELECT count(*) FROM (SELECT FROM %s GROUP BY topic HAVING count(*) >= %d) AS working", stage.from, progress)
		eventually(t, stage.what, func() bool {
			<-time.After(100 * time.Millisecond) // each look reads whole tables
			return patiently[int](t, w, working, since) == topics
		})
	}
}

// takesMore waits until some hundred orders more are taken, whatever becomes of them.
func (w *world) takesMore(t *testing.T) {
	t.Helper()
	taken := "SELECT count(*) FROM " + w.table("orders")
	least := w.number(t, taken) + 200
	eventually(t, "orders are taken", func() bool { return w.number(t, taken) >= least })
}

// patiently queries a value while the database may be away.
func patiently[T any](t *testing.T, w *world, sql string, args ...any) (v T) {
	t.Helper()
	eventually(t, "the database answers", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), unreached)
		defer cancel()
		return w.pool.QueryRow(ctx, sql, args...).Scan(&v) == nil
	})
	return v
}

// hurtAny kills or pauses one of several servers.
func hurtAny(nodes []*ownserver.Server) func(*rand.Rand) string {
	return func(rng *rand.Rand) string {
		n := nodes[rng.IntN(len(nodes))]
		if rng.IntN(2) == 0 {
			n.Kill()
			return "server killed"
		}
		n.Pause()
		return "server paused"
	}
}

// mendAll brings servers back until each of them is whole.
func mendAll(t *testing.T, nodes []*ownserver.Server, whole func() error) func() {
	return func() {
		t.Helper()
		for _, n := range nodes {
			n.Back()
		}
		var err error
		defer func() {
			if t.Failed() {
				t.Logf("the cluster is not whole: %v", err)
			}
		}()
		eventually(t, "the cluster is whole", func() bool {
			<-time.After(100 * time.Millisecond) // each look takes the servers some work
			err = whole()
			return err == nil
		})
	}
}

// eachPort returns a format filled in with each port, comma-separated.
func eachPort(format string, ports []string) string {
	list := make([]string, len(ports))
	for i, p := range ports {
		list[i] = fmt.Sprintf(format, p)
	}
	return strings.Join(list, ",")
}
