package relaycore

import (
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

// Batch is what is sent together. The shell changes nothing in it.
type Batch struct {
	Dest     string
	Messages []*Message
	Alone    bool          // no other batch is in flight to the destination
	Limit    time.Duration // how long the answers may take

	queue   *queue
	lines   []*line // of each message
	number  int64   // among those of the destination
	before  int64   // messages that the destination had accepted
	sent    Time
	slow    bool // it takes up no width of its queue any more
	patient bool // late confirms count
	late    bool // PublishTimeout has passed, and the answers are still waited for
	cut     bool
}

// lateLimit is for how many times PublishTimeout a late confirm is waited for.
const lateLimit = 15

// slowAfter is how long a batch may take before others pass it.
func (c *Core) slowAfter() time.Duration { return min(c.cfg.PublishTimeout/4, time.Second) }

// safe reports whether the lease outlasts the broker's answers to what is sent now: others may own the
// lanes after that.
func (c *Core) safe() bool { return c.lease.until-c.now > c.cfg.PublishTimeout }

// dispatch sends batches for as long as queues are open and have something to send.
func (c *Core) dispatch() {
	if !c.safe() {
		return
	}
	for _, d := range c.dests {
		if d.draining != nil && !c.dispatchFrom(d.draining) {
			continue
		}
		for _, q := range d.queues() {
			if !c.dispatchFrom(q) {
				break
			}
		}
	}
}

// dispatchFrom sends what a queue may send, and reports whether other queues of its destination may
// send, too: not while it waits to send a message alone.
func (c *Core) dispatchFrom(q *queue) bool {
	d := q.dest
	if d.draining == q {
		d.draining = nil
	}
	for room := c.open(q); room > 0; room = c.open(q) {
		b, drain := c.fill(q, room)
		if drain {
			d.draining = q
		}
		if b == nil {
			break
		}
		c.send(b)
	}
	return d.draining == nil && d.alone == nil
}

// open returns how many messages a queue may send now.
func (c *Core) open(q *queue) int {
	d, width := q.dest, c.cfg.Parallel
	if q.probing() {
		width = 1
	}
	switch {
	case !q.some(), d.alone != nil, q.running >= width, q.isolated && d.away >= isolatedBatches:
		return 0
	case d.main.paused(c.now) > 0, q.paused(c.now) > 0:
		return 0
	}
	return d.pace.allowed(c.cfg.BatchSize, c.now)
}

// fill takes messages out of a queue into a batch, which is nil if none may be sent. It reports
// whether that is because a message must be sent alone while others are in flight.
func (c *Core) fill(q *queue, room int) (b *Batch, drain bool) {
	d := q.dest
	b = &Batch{Dest: d.name, queue: q, Messages: make([]*Message, 0, min(room, q.total)), lines: make([]*line, 0, min(room, q.total))}
	l := q.next()
	if l != nil && d.suspect(l.waiting[0]) {
		l, room = c.chooseSuspect(q), 1
		if b.Alone = d.suspect(l.waiting[0]); b.Alone && len(d.batches) > 0 {
			return nil, true
		}
	}
	for ; l != nil && len(b.Messages) < room; l = q.next() {
		if !b.Alone && d.suspect(l.waiting[0]) && !l.filling {
			if len(b.Messages) == 0 { // what came before it is not sent
				return c.fill(q, room)
			}
			break
		}
		c.takeNext(b, l)
	}
	for _, l := range b.lines {
		if l.filling {
			l.filling = false
			q.place(l)
		}
	}
	if len(b.Messages) == 0 {
		return nil, false
	}
	return b, false
}

// takeNext takes the first message of a line into the batch, or out of its way if it is not to be sent. What
// cannot be sent with the earlier messages of its key in the batch ends the line's turn.
func (c *Core) takeNext(b *Batch, l *line) {
	m, q := l.waiting[0], b.queue
	if m.fate.Err == nil && m.expired(c.now) {
		m.fate = permanent(waybill.ReasonExpired, errExpired)
	}
	if l.filling && (m.fate.Err != nil || c.cfg.Strict || q.dest.suspect(m)) {
		l.filling = false // it is in flight from now on
		q.place(l)
		return
	}
	l.take()
	if m.fate.Err != nil {
		c.conclude(m, m.fate, 0)
	} else {
		_, m.Resent = q.dest.unsure(m)
		m.Resent = m.Resent || m.Attempts > 0
		b.Messages, b.lines = append(b.Messages, m), append(b.lines, l)
		l.sent++
		l.filling = l.key != "" && !c.cfg.Strict && !b.Alone
	}
	q.place(l)
	c.tidy(l)
	q.pass()
}

// chooseSuspect returns the line to send from while the first message of a queue is suspect: one whose
// first message is not, to show that the destination is well, if that is not known; else the suspect
// that has been tried least recently.
func (c *Core) chooseSuspect(q *queue) *line {
	var chosen *line
	for _, l := range q.readyLines() {
		m := l.waiting[0]
		switch suspect := q.dest.suspect(m); {
		case !suspect && !q.dest.well():
			return l
		case suspect && (chosen == nil || q.dest.pastOf(m).tried < q.dest.pastOf(chosen.waiting[0]).tried):
			chosen = l
		}
	}
	return chosen
}

// send puts a batch in flight.
func (c *Core) send(b *Batch) {
	q, d := b.queue, b.queue.dest
	d.sends++
	b.number, b.before, b.sent, b.Limit = d.sends, d.accepted, c.now, c.cfg.PublishTimeout
	if b.patient = d.late && !b.Alone; b.patient {
		b.Limit *= lateLimit
	}
	if b.Alone {
		d.alone = b
		d.pastOf(b.Messages[0]).tried = c.now
	}
	q.running++
	if q.isolated {
		c.countAway(b, 1)
	}
	d.pace.tokens -= float64(len(b.Messages))
	q.slow = q.slow && q.total > c.cfg.BatchSize
	d.batches = append(d.batches, b)
	c.do(Publish{b})
}

// countAway counts a batch that others need not wait for, and its messages.
func (c *Core) countAway(b *Batch, n int) {
	b.queue.dest.away += n
	c.held.away += n * len(b.Messages)
}

// watchBatches looks after batches that are not answered: others pass one that is slow, and a wait that
// holds up messages that are well is ended.
func (c *Core) watchBatches() {
	for _, d := range c.dests {
		for _, b := range d.batches {
			age := c.now - b.sent
			if !b.slow && !b.queue.isolated && age >= c.slowAfter() {
				c.setAside(b)
			}
			if b.patient && !b.late && age >= c.cfg.PublishTimeout {
				c.late(b)
			}
			if !b.cut && c.holdsUp(b) {
				b.cut = true
				c.do(Cut{b})
			}
		}
	}
}

// setAside lets others pass a batch: it takes up no width of its queue, and its topics are isolated
// until they have shown that they are well.
func (c *Core) setAside(b *Batch) {
	b.slow = true
	b.queue.running--
	c.countAway(b, 1)
	for _, topic := range b.topics() {
		c.isolate(b.queue.dest, topic)
	}
}

// late pauses what is not answered in time, as if it had failed; the answers are still waited for.
func (c *Core) late(b *Batch) {
	b.late = true
	err := waybill.UnavailableError(fmt.Errorf("no answer within %v; it is still waited for", c.cfg.PublishTimeout))
	c.pause(b.queue, b.topics(), b.queue.dest.accepted > b.before, err)
}

// holdsUp reports whether a batch must not be waited for any longer: others may own the lanes by now,
// or one of its topics is in trouble and holds up the messages of the others. That is so if a batch of
// several topics is slow, or, where late confirms count, if what was sent much later is confirmed.
func (c *Core) holdsUp(b *Batch) bool {
	switch {
	case b.late && c.lease.until <= c.now:
		return true
	case b.late:
		return b.queue.dest.heard > b.sent+c.cfg.PublishTimeout/2 && len(b.topics()) > 1
	case b.slow && !b.patient:
		return c.now >= b.sent+2*c.slowAfter() && len(b.topics()) > 1
	}
	return false
}

// topics returns the topics of the batch, in the order of its messages.
func (b *Batch) topics() (topics []string) {
	for _, m := range b.Messages {
		if !slices.Contains(topics, m.Topic) {
			topics = append(topics, m.Topic)
		}
	}
	return topics
}

// nextBatch returns when a batch in flight is to be looked at.
func (c *Core) nextBatch() Time {
	next := never
	for _, d := range c.dests {
		for _, b := range d.batches {
			for _, age := range []time.Duration{c.slowAfter(), 2 * c.slowAfter(), c.cfg.PublishTimeout} {
				if at := b.sent + age; at > c.now {
					next = min(next, at)
				}
			}
			if b.late && !b.cut {
				next = min(next, c.now+c.slowAfter())
			}
		}
	}
	return next
}

// nextDispatch returns when a pause ends, or a rate allows more, of a queue with something to send.
func (c *Core) nextDispatch() Time {
	next := never
	for _, d := range c.dests {
		for _, q := range d.queues() {
			if !q.some() {
				continue
			}
			if until := max(q.until, d.main.until); until > c.now {
				next = min(next, until)
			} else if at := d.pace.next(c.now); at > c.now {
				next = min(next, at)
			}
		}
	}
	return next
}
