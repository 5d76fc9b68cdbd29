package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/relaycore"
)

// node is one relay: a core, and what carries out its commands.
type node struct {
	w       *world
	name    string
	core    *relaycore.Core
	began   relaycore.Time
	jump    time.Duration  // of its clock
	frozen  relaycore.Time // its clock, which went back, does not advance until then
	gone    bool
	resume  relaycore.Time // the process is paused until then
	cutOff  bool           // from the broker, until the faults end
	blind   bool           // it cannot read from the store until then
	visits  bool           // it is not replaced
	stops   bool
	touched relaycore.Time // when something was last sent, answered or settled
	monitor *monitor
	ticks   int
	waiting bool // an Await is running
	news    bool // something was committed since the claim began
	flights map[*relaycore.Batch]func()
	results map[*relaycore.Message]relaycore.Result // the latest of each message that was sent
	read    cursors
	forgot  bool // how far it had read, since its latest claim
}

func (w *world) startRelay(name string) *node {
	n := &node{w: w, name: name, core: relaycore.New(w.cfg), began: w.now, flights: make(map[*relaycore.Batch]func()), read: make(cursors),
		monitor: newMonitor(&w.cfg, w.now), results: make(map[*relaycore.Message]relaycore.Result)}
	if w.plan.Backlog {
		n.monitor.latest = make(map[string]int64)
	}
	w.relays = append(w.relays, n)
	w.say("%s starts", name)
	n.handle(relaycore.Tick{})
	n.audit()
	return n
}

// clock is the relay's own.
func (n *node) clock() relaycore.Time { return max(0, n.w.now-n.began+n.jump) }

// handle gives an event to the core and executes its commands.
func (n *node) handle(e relaycore.Event) {
	if n.gone {
		return
	}
	if n.w.now < n.resume {
		n.w.after(n.resume-n.w.now, func() { n.handle(e) })
		return
	}
	now := n.clock()
	n.monitor.told(e, n.w.now)
	for _, cmd := range n.core.Step(now, e) {
		n.w.check(n.monitor.asks(cmd, n.w.now))
		n.start(cmd)
	}
	if n.holdsTooMuch(); n.ends() {
		n.leave()
		return
	}
	n.ticks++
	tick := n.ticks
	if next := n.core.Next(); next < never/2 {
		n.w.after(next-now, func() {
			if tick == n.ticks {
				n.handle(relaycore.Tick{})
			}
		})
	}
}

// holdsTooMuch checks that what is held is bounded.
func (n *node) holdsTooMuch() {
	s := n.core.Stats()
	if most := n.w.plan.mostHeld(); s.Held > most {
		n.w.fail("%s holds %d messages, more than %d", n.name, s.Held, most)
	}
	if s.Bytes > mostBytes {
		n.w.fail("%s holds %d bytes, more than %d", n.name, s.Bytes, mostBytes)
	}
}

// ends reports whether the relay has stopped, which it has not while anything is in flight.
func (n *node) ends() bool {
	if !n.core.Done() {
		return false
	}
	n.w.say("%s has stopped", n.name)
	if len(n.flights) > 0 {
		n.w.fail("%s has stopped while messages are in flight", n.name)
	}
	return true
}

const (
	auditEvery = 5 * time.Second
	stopsFor   = 6 * time.Second // then it is ended by force
	settlesFor = 3 * time.Second // at most between two calls
)

// audit checks from time to time that the relay makes progress.
func (n *node) audit() {
	if n.gone || n.stops {
		return
	}
	w, s := n.w, n.core.Stats()
	ahead := max(w.cfg.BatchSize, 50*w.cfg.BatchSize)
	free := s.Held <= ahead/2 && s.Bytes <= 8<<20 && s.LeaseUntil-n.clock() > w.cfg.PublishTimeout
	if w.now < n.resume || w.now < n.frozen || w.refuses {
		n.monitor.excuse(w.now)
	}
	if n.blind {
		n.monitor.claimed = w.now
	}
	if err := n.monitor.idle(s, free, w.now); err != nil {
		w.fail("%s: %v", n.name, err)
	}
	if n.cutOff || n.blind {
		w.check(n.monitor.stuck(w.now))
	}
	w.after(auditEvery, n.audit)
}

// stop ends the relay gracefully, or by force if that takes long: it must not take longer than what is in
// flight.
func (n *node) stop() {
	n.stops, n.touched = true, n.w.now
	n.handle(relaycore.Stop{})
	n.w.after(stopsFor, func() {
		if n.gone {
			return
		}
		rests := len(n.flights) == 0 && n.monitor.settling == nil && n.w.now-n.touched > settlesFor
		if rests && n.w.now-n.resume > stopsFor && n.w.now > n.frozen+stopsFor && !n.w.refuses {
			n.w.fail("%s has nothing in flight, and does not end", n.name)
		}
		n.leave()
	})
}

// leave shuts a relay down gracefully, and starts another in its place.
func (n *node) leave() {
	n.gone = true
	n.w.store.leave(n.name)
	n.w.alike(func(t twin) error { return t.left(n) })
	n.replace()
}

// replace starts another relay some time later.
func (n *node) replace() {
	w := n.w
	w.gone[n.name] = w.now
	w.relays = slices.DeleteFunc(w.relays, func(o *node) bool { return o == n })
	if n.visits {
		return
	}
	w.after(w.latency(time.Second)+w.pause(), func() { w.startRelay(n.name + "'") })
}

// absence is about the longest time until a relay is started again.
const absence = 20 * time.Second

// pause returns a random time, up to absence, until a relay is started again.
func (w *world) pause() time.Duration {
	if w.plan.Churn {
		return 0
	}
	return w.between(0, absence-time.Second)
}

// answered receives the results of a batch.
func (n *node) answered(e relaycore.Answered) {
	n.touched = n.w.now
	for i, m := range e.Batch.Messages {
		n.results[m] = e.Results[i]
	}
	n.handle(e)
}

// wake notifies a waiting relay of a commit.
func (n *node) wake() {
	if n.news = true; n.waiting && n.w.rand.IntN(4) > 0 {
		n.w.after(n.w.between(0, 10*time.Millisecond), n.endWait)
	}
}

func (n *node) endWait() {
	if n.waiting {
		n.news = false
		n.waiting = false
		n.handle(relaycore.Woken{})
	}
}

// call carries out a call to the store: it takes effect after a while, or not, and is answered after
// another.
func (n *node) call(cmd relaycore.Command, effect func() relaycore.Event, failed func(error) relaycore.Event) {
	n.callFor(n.w.latency(20*time.Millisecond), cmd, effect, failed)
}

// callFor is a call whose answer takes the given time to arrive.
func (n *node) callFor(answered time.Duration, cmd relaycore.Command, effect func() relaycore.Event, failed func(error) relaycore.Event) {
	w := n.w
	w.after(w.latency(20*time.Millisecond), func() {
		if n.gone && w.chance(0.5) {
			return // it crashed before the call was made
		}
		var answer relaycore.Event
		if w.chance(w.plan.Faults / 2) { // before it took effect
			answer = failed(errAway)
		} else {
			answer = effect()
			w.alike(func(t twin) error { return t.called(n, cmd, answer) })
			if w.chance(w.plan.Faults / 2) { // the answer is lost
				answer = failed(errAway)
			}
		}
		w.after(answered, func() { n.handle(answer) })
	})
}

// forget makes the store read again what was read and not returned.
func (n *node) forget() {
	clear(n.read)
	n.forgot = true
}

// claim reads from the store.
func (n *node) claim(cmd relaycore.Claim) relaycore.Event {
	w := n.w
	if n.blind && !w.calm {
		n.forget()
		return relaycore.ClaimFailed{Err: errAway}
	}
	var first func(*row) bool
	w.alike(func(t twin) (err error) {
		first, err = t.claim(n, cmd)
		return err
	})
	claimed := w.store.claim(cmd, n.read, w.clock(), w.plan.Dests, first)
	w.routeFails(claimed.Messages)
	return claimed
}

// claimLatency is how long the answer to a claim takes to arrive.
func (w *world) claimLatency() time.Duration {
	if w.plan.Slow {
		return w.between(0, 2*time.Second)
	}
	return w.latency(20 * time.Millisecond)
}

func (n *node) start(cmd relaycore.Command) {
	w := n.w
	if r, ok := cmd.(relaycore.Report); ok {
		w.say("%s reports %d %s %s %v %v", n.name, r.What, r.Dest, r.Topic, r.Delay, r.Err)
	} else {
		w.say("%s wants %T", n.name, cmd)
	}
	switch cmd := cmd.(type) {
	case relaycore.Renew:
		n.call(cmd, func() relaycore.Event { return n.renew(cmd) },
			func(err error) relaycore.Event { return relaycore.LeaseFailed{Err: err} })
	case relaycore.Release:
		n.call(cmd, func() relaycore.Event { return w.store.release(cmd.Limit, w.clock()) },
			func(err error) relaycore.Event { return relaycore.Released{Err: err} })
	case relaycore.Count:
		n.call(cmd, func() relaycore.Event { return w.store.count(cmd.Lanes) },
			func(err error) relaycore.Event { return relaycore.Counted{Err: err} })
	case relaycore.Claim:
		n.news = false
		n.callFor(w.claimLatency(), cmd, func() relaycore.Event { return n.claim(cmd) },
			func(err error) relaycore.Event {
				n.forget()
				return relaycore.ClaimFailed{Err: err}
			})
	case relaycore.ClaimAhead:
		n.call(cmd, func() relaycore.Event { return w.store.claimAhead(cmd, w.clock(), w.plan.Dests) },
			func(err error) relaycore.Event { return relaycore.ClaimedAhead{Err: err} })
	case relaycore.Await:
		n.waiting = true
		if n.news {
			w.after(0, n.endWait)
		} else {
			w.after(cmd.Until-n.clock(), n.endWait)
		}
	case relaycore.EndAwait:
		w.after(0, n.endWait)
	case relaycore.Publish:
		w.say("%s sends %s", n.name, ids(cmd.Batch))
		n.touched = w.now
		w.check(n.dated(cmd.Batch))
		w.check(n.leased())
		w.check(w.paced(cmd.Batch))
		w.broker.send(n, cmd.Batch)
	case relaycore.Cut:
		if cut := n.flights[cmd.Batch]; cut != nil {
			cut()
		}
	case relaycore.Settle:
		n.touched = w.now
		cmd.Settlements = slices.Clone(cmd.Settlements)
		n.call(cmd, func() relaycore.Event { return n.settle(cmd.Settlements) },
			func(err error) relaycore.Event { return relaycore.SettleFailed{Err: err} })
	}
}

// tolerance is how much later than the store a relay may find that a message has expired: the time that the
// answer to its claim took.
func (w *world) tolerance() time.Duration {
	if w.plan.Churn {
		return 3 * time.Second
	}
	return 100 * time.Millisecond
}

// dated checks that what is sent may be sent now. A relay that was paused knows the time less exactly.
func (n *node) dated(b *relaycore.Batch) error {
	for _, m := range b.Messages {
		switch r := rowOf(m); {
		case r.deliver > 0 && r.deliver > n.w.clock():
			return fmt.Errorf("%s is sent %v before its time", r.id, r.deliver-n.w.clock())
		case r.expires > 0 && n.resume == 0 && n.jump == 0 && n.w.clock()-r.expires > n.w.tolerance():
			return fmt.Errorf("%s is sent %v after it has expired", r.id, n.w.clock()-r.expires)
		}
	}
	return nil
}

// leased checks that the relay's lease outlasts the wait for the answers to what it sends. If a clock goes
// back, that cannot be known.
func (n *node) leased() error {
	left := n.w.store.nodes[n.name] - n.w.clock()
	if left > n.w.cfg.PublishTimeout || n.w.plan.Skewed || n.w.now < n.frozen+n.w.plan.TTL {
		return nil
	}
	return fmt.Errorf("%s sends something, and its lease lasts for %v", n.name, left)
}

// paced checks that all relays together send no more in a second than the rate allows, plus what each of them
// may have saved up.
func (w *world) paced(b *relaycore.Batch) error {
	if w.plan.Rate == 0 || w.jumps || b.Dest == follower {
		return nil
	}
	sent := slices.DeleteFunc(w.sent[b.Dest], func(t relaycore.Time) bool { return t <= w.now-time.Second })
	w.sent[b.Dest] = append(sent, slices.Repeat([]relaycore.Time{w.now}, len(b.Messages))...)
	relays, rate := float64(len(w.relays)+1), float64(w.plan.Rate)
	if most := rate + relays*(rate/10+1); float64(len(w.sent[b.Dest])) > most {
		return fmt.Errorf("%d messages are sent to %q in a second, the rate is %v", len(w.sent[b.Dest]), b.Dest, rate)
	}
	return nil
}

func (n *node) renew(cmd relaycore.Renew) relaycore.Event {
	s, now := n.w.store, n.w.clock()
	lanes, leases := slices.Clone(s.lanes), maps.Clone(s.nodes)
	answer := s.renew(n.name, cmd, n.w.leaseTTL(), now)
	n.w.check(s.handedOver(lanes, leases, now))
	if _, leased := answer.(relaycore.Leased); leased {
		n.w.check(n.w.orphaned())
	}
	return answer
}

// orphaned checks, after a renewal, that no lane is still owned by a relay that ended long ago. When the
// store's clock goes back a lease may last for its whole length again, from the next renewal of another relay
// on.
func (w *world) orphaned() error {
	limit := 3 * w.plan.TTL
	if w.skewed > 0 {
		limit += absence
	}
	for i, l := range w.store.lanes {
		if at, gone := w.gone[l.owner]; gone && w.now-max(at, w.skewed) > limit {
			return fmt.Errorf("lane %d is still that of %s, which ended %v ago", i, l.owner, w.now-at)
		}
	}
	return nil
}

func (n *node) settle(list []relaycore.Settlement) relaycore.Event {
	for i := range list {
		st := &list[i]
		m := st.Message
		n.w.say("%s settles %s@%s: %d after %v behind %v attempts %d", n.name, rowOf(m).id, m.Dest, st.Outcome, st.After, st.Behind, st.Attempts)
	}
	n.touched = n.w.now
	n.w.check(n.w.broker.ledger.settle(list))
	n.w.check(n.w.broker.ledger.answered(list, n.results))
	for i := range list {
		if rowOf(list[i].Message).id == n.w.stubborn {
			return relaycore.SettleFailed{Refused: true, Err: errRefused}
		}
	}
	for i := range list {
		list[i].After = n.w.offTick(list[i].After)
	}
	others := n.w.store.ofOthers(n.name, list)
	lost := n.w.store.settle(n.name, list, n.w.clock())
	n.w.check(n.w.store.untouched(others))
	n.w.takeovers += len(lost)
	return relaycore.Settled{Lost: lost}
}

func ids(b *relaycore.Batch) (list []string) {
	for _, m := range b.Messages {
		list = append(list, copyOf(m))
	}
	return list
}

// failure returns the result of a message that was not accepted.
func failure(kind waybill.Kind, reason waybill.Reason) relaycore.Result {
	return relaycore.Result{Err: errRefused, Kind: kind, Reason: reason}
}
