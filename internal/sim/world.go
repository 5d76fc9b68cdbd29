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

	"github.com/waybill-go/waybill/internal/relaycore"
)

var (
	errLost    = errors.New("lease lost")
	errAway    = errors.New("away")
	errRefused = errors.New("refused")
)

// world is one simulated system: a store, a broker and relays. One clock and one source of chance
// decide everything, so that a plan always gives the same run.
type world struct {
	rand  *rand.Rand
	log   io.Writer
	now   relaycore.Time
	skew  time.Duration // of the store's clock
	steps queue
	seq   int

	store    *store
	twin     twin                        // nil if there is only the model
	tick     time.Duration               // the resolution of the store's clock; 0 means any
	made     map[string]row              // messages, as they were enqueued
	stubborn string                      // the message of which the store refuses settlements
	refuses  bool                        // there has been such a message
	jumps    bool                        // a relay's clock has jumped
	sent     map[string][]relaycore.Time // of the last second, by destination
	gone     map[string]relaycore.Time   // when relays have ended
	skewed   relaycore.Time              // when the clock of the store has last gone back
	visits   int                         // relays that were started to stop soon
	broker   *broker
	relays   []*node
	cfg      relaycore.Config
	plan     plan
	calm     bool  // the faults have ended
	failed   error // the first broken promise
	seen     *sketch
	figures
}

// figures count what has happened.
type figures struct {
	messages, sends, dead, crashes, takeovers, events int
	effects, skipped                                  int           // of deliveries to consumers: the first ones, and copies
	drained                                           time.Duration // by then, after the faults ended
}

func (f *figures) add(o figures) {
	f.messages += o.messages
	f.sends += o.sends
	f.dead += o.dead
	f.crashes += o.crashes
	f.takeovers += o.takeovers
	f.events += o.events
	f.effects += o.effects
	f.skipped += o.skipped
	f.drained = max(f.drained, o.drained)
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

func newWorld(p plan, log io.Writer) *world {
	w := &world{rand: rand.New(rand.NewPCG(p.Seed, 1)), log: log, plan: p, cfg: p.config(), seen: newSketch(), made: make(map[string]row), sent: make(map[string][]relaycore.Time), gone: make(map[string]relaycore.Time)}
	w.store = newStore(p.Lanes)
	w.broker = newBroker(w)
	return w
}

// after plans something for later.
func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.steps, step{w.now + max(0, d), w.seq, do})
}

// clock is the store's.
func (w *world) clock() relaycore.Time { return (w.now + w.skew).Truncate(w.tick) }

// leaseTTL is how long leases last in the store: not a whole number of ticks, and no less than relays rely on.
func (w *world) leaseTTL() time.Duration { return w.plan.TTL + 3*w.tick/2 }

// offTick returns a time, or how long something takes, that is not a whole number of ticks: a little less.
func (w *world) offTick(t time.Duration) time.Duration {
	if w.tick == 0 {
		return t
	}
	return max(0, t.Truncate(w.tick)-w.tick/2)
}

// chance reports true with a probability, never when the faults have ended.
func (w *world) chance(p float64) bool { return w.rand.Float64() < p && !w.calm }

func (w *world) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.rand.Int64N(int64(high-low)))
}

// latency is how long something takes, up to a time.
func (w *world) latency(most time.Duration) time.Duration {
	if w.plan.Churn {
		most *= 20
	}
	return w.between(0, most)
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

// mostEvents is far more than any run has.
const mostEvents = 2_000_000

// run runs the system: for a time with faults, then without any until everything is drained.
func (w *world) run() error {
	w.say("%+v", w.plan)
	for i := range w.plan.Relays {
		w.after(w.between(0, 10*time.Second), func() { w.startRelay(fmt.Sprint("r", i)) })
	}
	for i := range w.plan.Messages {
		at := w.between(0, w.plan.For)
		switch {
		case w.plan.Backlog:
			at = 12*time.Second + time.Duration(i)*time.Microsecond
		case w.plan.Bursts:
			at = at.Truncate(w.plan.For/4) + at%(100*time.Millisecond)
		}
		w.after(at, func() { w.produce(i) })
	}
	w.trouble()
	w.after(w.plan.For, w.endTrouble)
	for w.steps.Len() > 0 && w.failed == nil {
		s := heap.Pop(&w.steps).(step)
		w.now = s.at
		w.figures.events++
		s.do()
		if w.figures.events > mostEvents {
			w.fail("there is no end of it: %d events", w.figures.events)
		}
		w.seen.add(w.state())
		if w.calm && w.drainedNow() {
			w.drained = w.now - w.plan.For
			return w.judge()
		}
		if bound := w.plan.bound(-w.skew); w.now > w.plan.For+bound {
			w.fail("%d messages are left %v after the faults ended: %s", w.store.left(), bound, w.leftovers())
		}
		if w.calm {
			w.freeParked()
		}
	}
	return w.failed
}

// drainedNow reports whether nothing is left to do.
func (w *world) drainedNow() bool {
	return w.store.left() == 0 && w.messages == w.plan.Messages &&
		!slices.ContainsFunc(w.broker.consumers, func(c *consumer) bool { return !c.idle() })
}

// freeParked resolves the dead letters that park their keys after the faults have ended, as an operator would.
func (w *world) freeParked() {
	for i := range w.store.dead {
		if w.store.dead[i].parks {
			w.resolve(i, false)
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
	r := row{id: fmt.Sprint("m", n), topic: fmt.Sprint("t", w.rand.IntN(w.plan.Topics)), tenant: w.plan.tenant(n, w.rand)}
	if k := w.rand.IntN(w.plan.Keys + 1); k > 0 {
		r.key = fmt.Sprint("k", k)
		r.lane = k % w.plan.Lanes
	} else {
		r.lane = w.rand.IntN(w.plan.Lanes)
	}
	if w.plan.Dated {
		switch w.rand.IntN(6) {
		case 0:
			r.expires = w.now + w.between(time.Millisecond, 20*time.Second)
		case 1:
			r.deliver = w.now + w.between(time.Millisecond, 20*time.Second)
		}
	}
	if w.plan.Large && w.rand.IntN(3) == 0 {
		r.size = 1 + w.rand.IntN(largest)
	}
	if w.plan.Odd && w.rand.IntN(4) == 0 {
		r.odd = oddity(1 + w.rand.IntN(3))
	}
	if d := w.plan.Dests; w.plan.Routed && len(d) > 1 && w.rand.IntN(2) == 0 {
		i := w.rand.IntN(len(d))
		r.routes = d[i : i+1]
	}
	if w.twin != nil {
		r.lane, r.expires, r.deliver = w.twin.lane(r.id, r.key), w.offTick(r.expires), w.offTick(r.deliver)
	}
	w.enqueue(r)
}

// routeFails makes the destination of some messages fail to report whether it matches them, which counts as a
// failed attempt.
func (w *world) routeFails(list []relaycore.Message) {
	for i := range list {
		if m := &list[i]; rowOf(m).odd == unasked && len(m.Routes) < 2 && w.chance(0.5) {
			m.RouteErr = errRefused
			dest := m.Dest
			if !m.Waiting && len(m.Routes) == 1 {
				dest = m.Routes[0]
			}
			w.broker.ledger.failures[rowOf(m).id+"@"+dest]++
		}
	}
}

func (w *world) enqueue(r row) {
	if r.key != "" && slices.ContainsFunc(w.store.open, func(o *row) bool { return o.key == r.key }) {
		w.after(100*time.Millisecond, func() { w.enqueue(r) })
		return
	}
	w.messages++
	w.made[r.id] = r
	made := w.store.begin(r)
	w.alike(func(t twin) error { return t.begin(made) })
	commit := func() {
		w.store.commit(made)
		w.alike(func(t twin) error { return t.commit(made) })
		w.say("enqueued %s %s/%s in lane %d", r.id, r.topic, r.key, r.lane)
		for _, n := range w.relays {
			n.wake()
		}
	}
	if w.plan.Backlog || w.rand.IntN(4) > 0 || w.twin != nil && !w.twin.late() {
		commit()
		return
	}
	w.after(w.between(0, 2*time.Second), commit) // the transaction stays open
}

// judge checks what has become of every message.
func (w *world) judge() error {
	w.check(w.broker.ledger.end(w.store, w.messages, w.routesOf))
	for _, c := range w.broker.consumers {
		w.check(c.judge(w.messages))
	}
	w.check(w.fair())
	w.dead += len(w.store.dead)
	return w.failed
}

// fair checks, if a small tenant has enqueued behind a large one, that its messages do not wait for all of the
// other's.
func (w *world) fair() error {
	if !w.plan.Backlog {
		return nil
	}
	last := slices.Index(w.broker.order, fmt.Sprint("m", w.plan.Messages-1))
	if last > w.plan.Messages*3/4 {
		return fmt.Errorf("the last of %d messages of a small tenant is sent after %d others of a large one", smallTenant, last)
	}
	return nil
}

// routesOf returns the destinations that a message goes to.
func (w *world) routesOf(id string) []string {
	if r := w.made[id]; r.routes != nil {
		return append(slices.Clone(r.routes), w.plan.all()[len(w.plan.Dests):]...)
	}
	return w.plan.all()
}
