package main

import (
	"container/heap"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/relaycore"
)

var (
	errLost    = errors.New("lease lost")
	errAway    = errors.New("away")
	errRefused = errors.New("refused")
)

// world is one simulated system: a store, a broker and relays. One clock and one source of chance
// decide everything, so that a seed always gives the same run.
type world struct {
	rand  *rand.Rand
	log   io.Writer
	now   relaycore.Time
	steps queue
	seq   int

	store  *store
	broker *broker
	relays []*node
	cfg    relaycore.Config
	plan   plan
	calm   bool  // no faults any more
	failed error // the first broken promise
	figures
}

// plan says what a run is made of.
type plan struct {
	lanes, messages, keys, topics, relays int
	dests                                 []string
	faults                                float64 // chance that a call fails, and rate of the others
}

// figures count what has happened.
type figures struct{ messages, sends, dead, crashes, takeovers, events int }

func (f *figures) add(o figures) {
	f.messages += o.messages
	f.sends += o.sends
	f.dead += o.dead
	f.crashes += o.crashes
	f.takeovers += o.takeovers
	f.events += o.events
}

// step is something that happens at a time.
type step struct {
	at  relaycore.Time
	seq int
	do  func()
}

// queue is a heap of steps by their times.
type queue []step

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(step)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	s := (*q)[last]
	*q = (*q)[:last]
	return s
}

func newWorld(seed uint64, log io.Writer) *world {
	w := &world{rand: rand.New(rand.NewPCG(seed, 1)), log: log}
	pick := func(list ...int) int { return list[w.rand.IntN(len(list))] }
	w.plan = plan{
		lanes: pick(1, 2, 4), messages: pick(3, 10, 40), keys: pick(1, 2, 5), topics: pick(1, 1, 2, 3), relays: pick(1, 2, 2, 3),
		dests: [][]string{{""}, {""}, {"a", "b"}}[w.rand.IntN(3)], faults: []float64{0, 0.02, 0.1, 0.3}[w.rand.IntN(4)],
	}
	retry, _ := waybill.RetryPolicy{MaxRetries: pick(1, 3)}.WithDefaults()
	w.cfg = relaycore.Config{
		BatchSize: pick(1, 3, 10), Parallel: pick(1, 2, 4), Strict: w.rand.IntN(2) == 0, Retry: retry,
		Order:     relaycore.Order(w.rand.IntN(2)), // the order of what is skipped is not promised
		MaxParked: 1000, MaxParkedKeys: 1000,
		LeaseTTL: leaseTTL, RenewInterval: 2 * time.Second, PublishTimeout: 4 * time.Second, PollInterval: 5 * time.Second,
		CallTimeout: leaseTTL, Seed: seed,
	}
	for _, d := range w.plan.dests {
		w.cfg.Dests = append(w.cfg.Dests, relaycore.Dest{Name: d, Late: w.rand.IntN(2) == 0, Rate: float64(pick(0, 0, 0, 50))})
	}
	w.store = newStore(w.plan.lanes)
	w.broker = newBroker(w)
	return w
}

// after plans something for later.
func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.steps, step{w.now + max(0, d), w.seq, do})
}

// chance reports true with a probability, never when the faults have ended.
func (w *world) chance(p float64) bool { return w.rand.Float64() < p && !w.calm }

func (w *world) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.rand.Int64N(int64(high-low)))
}

func (w *world) say(format string, args ...any) {
	if w.log != nil {
		fmt.Fprintf(w.log, "%9.3f  %s\n", w.now.Seconds(), fmt.Sprintf(format, args...))
	}
}

func (w *world) fail(format string, args ...any) {
	if w.failed == nil {
		w.failed = fmt.Errorf("at %v: %s", w.now, fmt.Sprintf(format, args...))
	}
}

// check fails the run if a promise was broken.
func (w *world) check(err error) {
	if err != nil {
		w.fail("%v", err)
	}
}

const (
	troubleFor = 2 * time.Minute
	drainFor   = 20 * time.Minute // at most, after the faults have ended
)

// run runs the system: two minutes with faults, then without any until everything is drained.
func (w *world) run() error {
	w.say("%+v %+v", w.plan, w.cfg)
	for i := range w.plan.relays {
		w.after(w.between(0, 10*time.Second), func() { w.startRelay(fmt.Sprint("r", i)) })
	}
	for i := range w.plan.messages {
		w.after(w.between(0, troubleFor), func() { w.produce(i) })
	}
	w.trouble()
	w.after(troubleFor, func() {
		w.say("no faults from now on")
		w.calm = true
		w.broker.heal()
		for i := len(w.store.dead) - 1; i >= 0; i-- {
			w.store.resolve(i, false, w.now)
		}
	})
	for w.steps.Len() > 0 && w.failed == nil {
		s := heap.Pop(&w.steps).(step)
		w.now = s.at
		w.figures.events++
		s.do()
		if w.calm && w.store.left() == 0 && w.now > troubleFor {
			if w.messages == w.plan.messages {
				return w.judge()
			}
		}
		if w.now > troubleFor+drainFor {
			w.fail("%d messages are left %v after the faults ended: %s", w.store.left(), drainFor, w.leftovers())
		}
		if w.calm {
			w.freeParked()
		}
	}
	return w.failed
}

// freeParked resolves what parks after the faults have ended, as an operator would.
func (w *world) freeParked() {
	for i := range w.store.dead {
		if w.store.dead[i].parks {
			w.store.resolve(i, false, w.now)
		}
	}
}

func (w *world) leftovers() string {
	var list []string
	for _, r := range w.store.rows {
		list = append(list, fmt.Sprintf("%s@%s waits %v due %v attempts %d", r.id, r.dest, r.waits, r.due, r.attempts))
	}
	return strings.Join(list, "; ")
}

// produce enqueues message n. Enqueues of one key wait for each other, as order requires.
func (w *world) produce(n int) {
	r := row{id: fmt.Sprint("m", n), topic: fmt.Sprint("t", w.rand.IntN(w.plan.topics)), tenant: fmt.Sprint("x", w.rand.IntN(2))}
	if k := w.rand.IntN(w.plan.keys + 1); k > 0 {
		r.key = fmt.Sprint("k", k)
		r.lane = k % w.plan.lanes
	} else {
		r.lane = w.rand.IntN(w.plan.lanes)
	}
	w.enqueue(r)
}

func (w *world) enqueue(r row) {
	if r.key != "" && slices.ContainsFunc(w.store.open, func(o *row) bool { return o.key == r.key }) {
		w.after(100*time.Millisecond, func() { w.enqueue(r) })
		return
	}
	w.messages++
	made := w.store.begin(r)
	commit := func() {
		w.store.commit(made)
		w.say("enqueued %s %s/%s in lane %d", r.id, r.topic, r.key, r.lane)
		for _, n := range w.relays {
			n.wake()
		}
	}
	if w.rand.IntN(4) > 0 {
		commit()
		return
	}
	w.after(w.between(0, 2*time.Second), commit) // the transaction stays open
}

// trouble plans faults of the whole system.
func (w *world) trouble() {
	if w.plan.faults == 0 {
		return
	}
	for at := time.Duration(0); at < troubleFor; at += w.between(time.Second, min(40*time.Second, time.Duration(float64(2*time.Second)/w.plan.faults))) {
		w.after(at, func() {
			switch w.rand.IntN(6) {
			case 0:
				w.broker.fail()
			case 1:
				w.broker.slowTopic = fmt.Sprint("t", w.rand.IntN(w.plan.topics))
				w.say("topic %s is slow", w.broker.slowTopic)
			case 2:
				w.broker.heal()
			case 3, 4:
				w.crash()
			case 5:
				if n := len(w.store.dead); n > 0 {
					w.say("a dead letter is requeued")
					w.store.resolve(w.rand.IntN(n), true, w.now)
				}
			}
		})
	}
}

func (w *world) crash() {
	if len(w.relays) == 0 {
		return
	}
	n := w.relays[w.rand.IntN(len(w.relays))]
	switch w.rand.IntN(3) {
	case 0:
		w.say("%s crashes", n.name)
		n.gone = true
	case 1:
		pause := w.between(time.Second, 40*time.Second)
		w.say("%s is paused for %v", n.name, pause)
		n.resume = w.now + pause
		return
	case 2:
		w.say("%s stops", n.name)
		n.stop()
		return
	}
	w.crashes++
	w.relays = slices.DeleteFunc(w.relays, func(o *node) bool { return o == n })
	w.after(w.between(0, 20*time.Second), func() { w.startRelay(n.name + "'") })
}

// judge looks at what has become of every message.
func (w *world) judge() error {
	w.check(w.broker.ledger.end(w.store, w.messages, w.plan.dests))
	w.dead += len(w.store.dead)
	return w.failed
}
