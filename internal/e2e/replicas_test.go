package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/waybill-go/waybill/internal/recording"
	"github.com/waybill-go/waybill/internal/relaycore"
	"github.com/waybill-go/waybill/internal/testtools/history"
	"github.com/waybill-go/waybill/observe"
)

// soakEnv makes the long stories run in full: make soak.
const soakEnv = "E2E_SOAK"

func soaking() bool { return os.Getenv(soakEnv) != "" }

// seedEnv repeats the interruptions of an earlier run.
const seedEnv = "E2E_SEED"

func chosenSeed(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv(seedEnv); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s is %q, which is no number: %v", seedEnv, text, err)
		}
	}
	t.Logf("repeat with %s=%d", seedEnv, seed)
	return seed
}

// replicasLease lets lanes change hands often within a short story, and is long enough that
// on a busy machine a relay does not lose them, and a broker confirms, without a fault.
var replicasLease = leaseTimes{LeaseTTL: 4500 * time.Millisecond, RenewInterval: 400 * time.Millisecond, PublishTimeout: 3500 * time.Millisecond}

// TestReplicasHistory has four relay processes killed, stopped, resumed, started and cut off
// from the broker, one of these every second, while messages are committed. Then it compares
// what the broker holds with what was committed, and runs what each relay has recorded through the
// relay's core, which the simulator runs: it decides the same.
//
//test:soak
func TestReplicasHistory(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		name, broker string
		strict       bool // with refusals: pipelined, a refused message may be overtaken
	}{
		{name: "nats pipelined", broker: "nats"},
		{name: "rabbit pipelined", broker: "rabbit"},
		{name: "nats strict with refusals", broker: "nats", strict: true},
		{name: "rabbit strict with refusals", broker: "rabbit", strict: true},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			w, b := plainWorld(t), newBroker(t, v.broker)
			b.subscribe(t, b.connect(t), "audit", "orders")
			replicasHistory(t, w, b, child{Role: "replica", Lease: replicasLease, Strict: v.strict, Refuse: v.strict})
		})
	}
}

func replicasHistory(t *testing.T, w *world, b brokerSettings, settings child) {
	keys, messages, interruptions, limit := 100, 6_000, 6, 4*patience
	if soaking() {
		keys, messages, interruptions, limit = 1_000, 200_000, 60, 20*patience
	}
	transactions := messages / perTransaction
	writers := w.startWriters(t, keys, transactions)
	settings.Record = t.TempDir()
	c := newChaos(t, w, b, settings)
	for _, r := range c.replicas { // each is recorded before the first of them is killed
		r.process.wait(t, string(observe.OpLanes))
	}
	for n := range interruptions {
		for range transactions*(n+1)/interruptions - transactions*n/interruptions {
			writers.turns <- struct{}{}
		}
		soon := time.Duration(c.rng.IntN(150)) * time.Millisecond // while the relays are at it
		c.watch(t, soon)
		c.interrupt(t)
		c.watch(t, time.Second-soon)
	}
	committed := writers.finish(t)
	c.heal(t)
	within(t, limit, "everything is published", func() bool {
		c.lookForTakeovers(t)
		return w.number(t, "SELECT count(*) FROM "+w.table("outbox"))+w.number(t, "SELECT count(*) FROM "+w.table("outbox_waiting")) == 0
	})
	within(t, limit, "every lane of a relay that has gone is taken over", func() bool { return c.lookForTakeovers(t) == 0 })
	c.killAll()
	r := history.Check(committed, b.everyID(t, "audit"))
	t.Logf("%v; %d interruptions, slowest takeover %v", r, c.interruptions, c.slowest.Round(time.Millisecond))
	if !r.OK() || r.Committed < messages/perTransaction*perTransaction {
		t.Errorf("the history is wrong: %v", r)
	}
	if n := w.number(t, "SELECT count(*) FROM "+w.table("dead_letters")); n != 0 {
		t.Errorf("%d dead letters, want none", n)
	}
	replayAll(t, settings.Record)
}

// replayAll replays every recording of a directory. A relay that was killed may leave the end of its own
// unfinished.
func replayAll(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < 4 {
		t.Fatalf("%d relays were recorded, want those of the story (%v)", len(entries), err)
	}
	steps, accepted := 0, 0
	for _, entry := range entries {
		n, totals, err := replay(t, filepath.Join(dir, entry.Name()))
		if err != nil && !errors.Is(err, recording.ErrTruncated) {
			t.Errorf("%s, after %d steps: %v", entry.Name(), totals.Steps, err)
		}
		steps, accepted = steps+totals.Steps, accepted+n
	}
	t.Logf("%d relays were replayed: %d steps, %d messages accepted", len(entries), steps, accepted)
	if accepted == 0 {
		t.Error("no recording holds a message")
	}
}

// replay runs a recording through the decisions of relays, and counts the messages that were accepted.
func replay(t *testing.T, file string) (accepted int, _ recording.Totals, _ error) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	totals, err := recording.Replay(f, func(s *recording.Step) error {
		for _, cmd := range s.Commands {
			if report, ok := cmd.(relaycore.Report); ok && report.What == relaycore.PublishedNow {
				accepted += len(report.Messages)
			}
		}
		return nil
	})
	return accepted, totals, err
}

// chaos interrupts relay processes and sees to it that one is always running.
type chaos struct {
	*world
	rng      *rand.Rand
	replicas [4]*replica

	deck          []func(*testing.T, *replica)
	starts        int
	interruptions int
	gone          map[string]time.Time // killed or stopped relays that may still own lanes: since when
	slowest       time.Duration        // takeover
}

func newChaos(t *testing.T, w *world, b brokerSettings, settings child) *chaos {
	t.Helper()
	c := &chaos{world: w, rng: rand.New(rand.NewPCG(chosenSeed(t), 0)), gone: make(map[string]time.Time)}
	for i := range c.replicas {
		r := &replica{settings: settings}
		r.settings.Broker, r.proxy = b.throughProxy(t)
		c.replicas[i] = r
		c.start(t, r)
	}
	return c
}

func (c *chaos) start(t *testing.T, r *replica) {
	t.Helper()
	c.starts++
	r.start(t, c.world, fmt.Sprintf("replica-%d", c.starts))
}

// interrupt brings back what has been away for long enough, and then does one thing more to
// a relay that is running.
func (c *chaos) interrupt(t *testing.T) {
	t.Helper()
	c.interruptions++
	for _, r := range c.replicas {
		switch {
		case r.process == nil:
			c.start(t, r)
		case r.stopped == 1:
			c.resume(t, r)
		case r.stopped > 1:
			r.stopped--
		}
	}
	if r := c.victim(); r != nil {
		c.next()(t, r)
	}
}

// victim returns a running relay, or nil if it is the last one.
func (c *chaos) victim() *replica {
	var running []*replica
	for _, r := range c.replicas {
		if r.running() {
			running = append(running, r)
		}
	}
	if len(running) < 2 {
		return nil
	}
	return running[c.rng.IntN(len(running))]
}

// next draws what happens from a shuffled deck, so that a short story has some of each.
func (c *chaos) next() func(*testing.T, *replica) {
	if len(c.deck) == 0 {
		c.deck = []func(*testing.T, *replica){c.kill, c.stop, c.cut}
		c.rng.Shuffle(len(c.deck), func(i, j int) { c.deck[i], c.deck[j] = c.deck[j], c.deck[i] })
	}
	what := c.deck[0]
	c.deck = c.deck[1:]
	return what
}

func (c *chaos) kill(_ *testing.T, r *replica) {
	c.gone[r.settings.Node] = time.Now()
	r.kill()
}

// stop stops a relay for one to eight interruptions: less than its lease, or more.
func (c *chaos) stop(t *testing.T, r *replica) {
	t.Helper()
	r.process.stop(t)
	r.stopped = 1 + c.rng.IntN(8)
	c.gone[r.settings.Node] = time.Now()
}

func (c *chaos) resume(t *testing.T, r *replica) {
	t.Helper()
	delete(c.gone, r.settings.Node)
	r.process.resume(t)
	r.stopped = 0
}

func (c *chaos) cut(_ *testing.T, r *replica) { r.proxy.Cut() }

// watch looks for takeovers for a while.
func (c *chaos) watch(t *testing.T, while time.Duration) {
	t.Helper()
	began := time.Now()
	eventually(t, "it is time for the next interruption", func() bool {
		c.lookForTakeovers(t)
		return time.Since(began) >= while
	})
}

// lookForTakeovers notes how long it took to take over from relays that own nothing any
// more, and returns how many that have gone still own lanes.
func (c *chaos) lookForTakeovers(t *testing.T) int {
	t.Helper()
	if len(c.gone) == 0 {
		return 0
	}
	owned := c.owners(t)
	for node, since := range c.gone {
		if owned[node] == 0 {
			c.slowest = max(c.slowest, time.Since(since))
			delete(c.gone, node)
		}
	}
	return len(c.gone)
}

// heal brings every relay back.
func (c *chaos) heal(t *testing.T) {
	t.Helper()
	for _, r := range c.replicas {
		switch {
		case r.process == nil:
			c.start(t, r)
		case r.stopped > 0:
			c.resume(t, r)
		}
	}
}

func (c *chaos) killAll() {
	for _, r := range c.replicas {
		r.kill()
	}
}
