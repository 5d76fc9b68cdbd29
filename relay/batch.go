package relay

import (
	"context"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/internal/report"
)

// batch is what is sent together.
type batch struct {
	gate     *gate
	claims   []*Claim
	expired  []*Claim // while they were held: not to be sent
	lines    []*line  // of each claim
	alone    bool     // one message that may end the connection
	accepted int64    // by the destination before the batch was sent
	slow     bool     // it does not count at its gate any more
	done     bool
	cut      func() // ends the wait for answers
	began    time.Time
	late     bool // PublishTimeout has passed, and the answer is still waited for
}

// add takes n messages of a line into the batch, or one that has expired out of its way.
func (b *batch) add(l *line, n int) {
	keyed := l.key != ""
	for _, c := range l.take(n) {
		if c.expired() {
			b.expired = append(b.expired, c)
			if keyed {
				return // the rest of the line goes on when that is written down
			}
			continue
		}
		b.claims = append(b.claims, c)
		b.lines = append(b.lines, l)
		l.busy = keyed
	}
	if l.ready() {
		b.gate.ready.push(l)
	}
}

// topics returns the topics of the batch.
func (b *batch) topics() map[string]bool {
	topics := make(map[string]bool)
	for _, l := range b.lines {
		topics[l.topic] = true
	}
	return topics
}

// dispatch starts batches for as long as gates are open and something is ready. It does
// nothing while the lease might not outlast the broker's answer: another relay may own the
// lanes by then.
func (r *Relay) dispatch() {
	if r.lanes.remaining() <= r.cfg.PublishTimeout {
		return
	}
	r.backlog.mu.Lock()
	defer r.backlog.mu.Unlock()
	if r.stopping {
		return
	}
	for _, o := range r.outlets {
		r.dispatchFrom(o.main)
		for _, g := range o.sides {
			r.dispatchFrom(g)
		}
		if wait := o.pace.wait(); wait > 0 && o.ready() {
			r.alarm.in(wait)
		}
	}
}

func (r *Relay) dispatchFrom(g *gate) {
	for {
		room := g.open(r.cfg.BatchSize, r.cfg.Parallelism)
		if room == 0 {
			return
		}
		single := r.cfg.Mode == Strict || g.outlet.pace.rate > 0 // one of a key on the wire; a fair share
		b := g.next(room, single)
		for _, c := range b.expired {
			r.conclude(result{claim: c, err: unfit(c)})
		}
		if len(b.claims) == 0 {
			return
		}
		g.running++
		g.outlet.alone = b.alone
		if g.side {
			r.leaveAside(b, 1)
		}
		b.accepted, b.began = g.outlet.taken(), time.Now()
		ctx, cancel := context.WithCancel(r.work)
		b.cut = cancel
		r.batches.Go(func() { r.deliver(ctx, b) })
	}
}

// deliver sends a batch and concludes what came of it. A panic on the way leaves its
// messages to another claim.
func (r *Relay) deliver(ctx context.Context, b *batch) {
	defer b.cut()
	slow := time.AfterFunc(r.setAsideAfter(), func() { r.setAside(b) })
	defer slow.Stop()
	if b.patient() {
		late := time.AfterFunc(r.cfg.PublishTimeout, func() { r.lateBatch(b) })
		defer late.Stop()
	}
	var errs []error
	err := loop.Protect(func() error {
		errs = r.send(ctx, b)
		return nil
	})
	if err != nil {
		r.observe(r.work, waybill.Event{Op: waybill.OpLoop, Loop: "relay publish", Err: err})
		loop.Sleep(r.work, pauseBase) // no hot loop on the same messages
		errs = fillErrors(len(b.claims), waybill.UnavailableError(err))
	}
	r.finish(b, errs, time.Since(b.began))
	r.dispatch()
}

func (r *Relay) send(ctx context.Context, b *batch) []error {
	msgs := make([]*waybill.Message, len(b.claims))
	for i, c := range b.claims {
		msgs[i] = &c.Message
	}
	ctx, end := r.cfg.Observer.Start(waybill.WithName(ctx, r.cfg.Node), waybill.OpPublish, msgs...)
	errs := b.gate.outlet.send(ctx, b.claims, b.alone)
	end(waybill.BatchError(errs).Err())
	return errs
}

// setAsideAfter is how long a batch may take before others pass it.
func (r *Relay) setAsideAfter() time.Duration { return min(r.cfg.PublishTimeout/4, time.Second) }

// setAside lets others pass a batch that is not answered: it does not count at the main gate
// any more, and its topics leave by side gates until they have shown that they are well.
func (r *Relay) setAside(b *batch) {
	r.backlog.mu.Lock()
	if !b.done && !b.gate.side {
		b.slow = true
		b.gate.running--
		r.leaveAside(b, 1)
		topics := b.topics()
		for topic := range topics {
			b.gate.outlet.divert(topic)
		}
		if len(topics) > 1 && !b.patient() { // what is behind it should not wait for the one that is slow
			b.gate.outlet.mixed = append(b.gate.outlet.mixed, b)
			time.AfterFunc(r.setAsideAfter(), b.cut)
		}
	}
	r.backlog.mu.Unlock()
	r.dispatch()
}

// finish turns results into outcomes, opens the lines again and judges the destination.
func (r *Relay) finish(b *batch, errs []error, took time.Duration) {
	r.backlog.mu.Lock()
	b.done = true
	if b.alone {
		b.gate.outlet.alone = false
	}
	if !b.slow {
		b.gate.running--
	}
	if b.slow || b.gate.side {
		r.leaveAside(b, -1)
	}
	b.gate.outlet.mixed = slices.DeleteFunc(b.gate.outlet.mixed, func(other *batch) bool { return other == b })
	v := r.concludeBatch(b, errs, took)
	r.reopen(b, v.unanswered)
	if len(v.published) > 0 {
		b.gate.outlet.cutMixed()
	}
	events := r.judge(b, v, took)
	r.backlog.mu.Unlock()

	if len(v.published) > 0 {
		r.totals.add(func(s *Status) { s.Published += int64(len(v.published)); s.LastPublishedAt = time.Now() })
	}
	r.room.ring()
	for _, e := range append(events, v.events(b.gate.outlet.Name, took)...) {
		r.observe(r.work, e)
	}
}

// leaveAside counts batches that are under way beside the main gate, and their messages.
func (r *Relay) leaveAside(b *batch, batches int) {
	b.gate.outlet.aside += batches
	r.backlog.aside += batches * len(b.claims)
}

// verdict is what the results of a batch say.
type verdict struct {
	published  []*waybill.Message
	overtaken  []*Claim           // published although an earlier message of the key was refused
	late       []*waybill.Message // published, and maybe before, longer ago than the broker remembers
	lateness   time.Duration      // the longest of those
	unanswered []int              // places in the batch
	err        error              // of the last one unanswered
	unroutable map[string]error   // by topic: nobody would get its messages
}

// concludeBatch writes down what sending each message came to. One of a lane that is not
// ours any more, or not in the same lease, is left to another claim, with all behind it.
func (r *Relay) concludeBatch(b *batch, errs []error, took time.Duration) *verdict {
	v := &verdict{}
	for i, c := range b.claims {
		l, err := b.lines[i], errs[i]
		res := result{claim: c, err: err, took: took, sent: true}
		switch {
		case !r.lanes.owns(c.Lane):
			r.abandon(l, c)
		case !r.conclude(res):
			v.unanswered, v.err = append(v.unanswered, i), err
		case err == nil:
			v.published = append(v.published, &c.Message)
			if c.late > 0 {
				v.late, v.lateness = append(v.late, &c.Message), max(v.lateness, c.late)
			}
			if l.closed > 0 && l.waits > 0 {
				v.overtaken = append(v.overtaken, c)
			}
		case res.unroutable():
			if v.unroutable == nil {
				v.unroutable = make(map[string]error)
			}
			v.unroutable[l.topic] = err
		}
	}
	return v
}

// abandon leaves a message, and what is behind it, to a later claim.
func (r *Relay) abandon(l *line, c *Claim) {
	r.lanes.readAgain(c.Lane.Number)
	r.news.ring()
	r.backlog.release(c)
	r.backlog.dropFrom(l, func(lane Lane) bool { return lane.Number == c.Lane.Number })
}

// reopen puts messages without an answer back to the front of their lines, and lets the lines
// of a batch go on. If something of their key waits in the store, which may be an earlier one,
// they go there, and what is behind them in the line goes with them.
func (r *Relay) reopen(b *batch, unanswered []int) {
	for _, i := range slices.Backward(unanswered) {
		l, c := b.lines[i], b.claims[i]
		if l.waits > 0 {
			r.moveBehind(c)
			for _, next := range l.take(len(l.queue)) {
				r.moveBehind(next)
			}
		} else {
			l.putBack(c, b.alone)
		}
	}
	for i, l := range b.lines {
		if i > 0 && l == b.lines[i-1] {
			continue
		}
		l.busy = false
		if b.alone && len(unanswered) > 0 {
			l.enlistFirst()
		} else {
			l.enlist()
		}
		r.backlog.tidy(l)
	}
}

func (v *verdict) events(destination string, took time.Duration) []waybill.Event {
	events := report.ByType(waybill.Event{Op: waybill.OpPublish, Destination: destination, Duration: took}, v.published)
	for _, c := range v.overtaken {
		events = append(events, waybill.Event{Op: waybill.OpOvertaken, Destination: destination, Topic: c.Message.Address(), IDs: []string{c.Message.ID}, Count: 1})
	}
	late := waybill.Event{Op: waybill.OpDedupExpired, Destination: destination, Duration: v.lateness}
	return append(events, report.ByType(late, v.late)...)
}

// judge holds back what has not answered: the topics concerned, if the destination took
// others meanwhile, else the destination.
func (r *Relay) judge(b *batch, v *verdict, took time.Duration) []waybill.Event {
	g, o := b.gate, b.gate.outlet
	if r.work.Err() != nil {
		return nil
	}
	events := r.isolate(o, v.unroutable)
	if len(v.unanswered) == 0 && g.side && len(v.unroutable) > 0 {
		return append(events, r.judgeWell(o.main, took)...)
	}
	if len(v.unanswered) == 0 {
		return append(events, r.judgeWell(g, took)...)
	}
	alive := len(v.unanswered) < len(b.claims) || o.taken() > b.accepted
	topics := make(map[string]bool)
	for _, i := range v.unanswered {
		topics[b.lines[i].topic] = true
	}
	return append(events, r.holdBack(g, topics, alive, v.err))
}

// holdBack pauses what has not answered: topics, if the destination is alive, else all of it.
func (r *Relay) holdBack(g *gate, topics map[string]bool, alive bool, err error) waybill.Event {
	o := g.outlet
	pause := waybill.Event{Op: waybill.OpPause, Destination: o.Name, Topic: g.topic, Err: err}
	switch {
	case g.side:
		pause.Delay = g.trip()
	case alive:
		for pause.Topic = range topics {
			pause.Delay = o.divert(pause.Topic).trip()
		}
	default:
		pause.Delay = o.main.trip()
		if len(r.outlets) > 1 { // others need the room
			r.sendAway(g, 0, "the destination is paused")
		}
	}
	r.alarm.in(pause.Delay)
	r.failed(err)
	return pause
}

// isolate holds back topics whose messages would reach nobody, each by itself: what has been sent of
// them waits for its next attempt, and the rest is not to use its attempts up meanwhile.
func (r *Relay) isolate(o *outlet, topics map[string]error) (events []waybill.Event) {
	for topic, err := range topics {
		delay := o.divert(topic).trip()
		r.alarm.in(delay)
		events = append(events, waybill.Event{Op: waybill.OpPause, Destination: o.Name, Topic: topic, Delay: delay, Err: err})
	}
	return events
}

// judgeWell lets a topic that is well again leave by the main gate, and the destination go on.
func (r *Relay) judgeWell(g *gate, took time.Duration) []waybill.Event {
	if g.side && g.outlet.sides[g.topic] == g && took < r.setAsideAfter() {
		g.outlet.undivert(g.topic)
	}
	g.reset()
	if !g.outlet.main.reset() {
		return nil
	}
	return []waybill.Event{{Op: waybill.OpResume, Destination: g.outlet.Name}}
}
