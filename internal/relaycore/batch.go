package relaycore

import (
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

// Batch is a set of messages that are sent together. The shell must not change it.
type Batch struct {
	Dest     string
	Messages []*Message
	Alone    bool          // no other batch is in flight to the destination
	Limit    time.Duration // how long the answers may take
	Tag      any           // the shell's own

	queue   *queue
	number  int64 // among those of the destination
	before  int64 // messages that the destination had accepted
	sent    Time
	slow    bool // it no longer counts towards the parallelism of its queue
	patient bool // late confirms count
	late    bool // PublishTimeout has passed, and the answers are still awaited
	cut     bool
}

// lateLimit is the number of PublishTimeouts for which a late confirm is awaited.
const lateLimit = 15

// slowAfter returns how long a batch may take before others overtake it.
func (c *Core) slowAfter() time.Duration { return min(c.cfg.PublishTimeout/4, time.Second) }

// safe reports whether the lease outlasts the broker's answers to what is sent now: after the lease
// others may own the lanes.
func (c *Core) safe() bool { return c.lease.until-c.now > c.cfg.PublishTimeout }

// dispatch sends batches while queues are open and have something to send.
func (c *Core) dispatch() {
	if !c.safe() {
		return
	}
	for _, d := range c.dests {
		if d.draining != nil && !c.dispatchFrom(d.draining) {
			continue
		}
		for _, q := range d.queues {
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
	return d.draining == nil && !d.alone()
}

// open returns how many messages a queue may send now.
func (c *Core) open(q *queue) int {
	d, width := q.dest, c.cfg.Parallel
	if q.probing() {
		width = 1
	}
	running, aside := d.inFlight(q)
	switch {
	case q.next() == nil, d.alone(), running >= width, q.isolated() && aside >= isolatedBatches:
		return 0
	case c.before(max(d.main.until, q.until)), c.before(d.pace.next(c.now)):
		return 0
	}
	return d.pace.allowed(d.room)
}

// fit adapts the size of the next batches to the result of a batch. Larger ones cost less for each message, but
// later messages wait for them, and what is in flight is sent again after a crash.
func (c *Core) fit(b *Batch, v *verdict, took time.Duration) {
	d, least := b.queue.dest, min(firstRoom, c.cfg.BatchSize)
	switch {
	case len(v.unanswered) > 0:
		d.room = least
	case took > c.slowAfter()/2:
		d.room = max(d.room/2, least)
	case len(v.accepted) >= d.room && took < c.slowAfter()/4:
		d.room = min(2*d.room, c.cfg.BatchSize)
	}
}

// fill moves messages from a queue into a batch, which is nil if none may be sent. It reports
// whether that is because a message must be sent alone while others are in flight.
func (c *Core) fill(q *queue, room int) (b *Batch, drain bool) {
	d := q.dest
	b = &Batch{Dest: d.Name, queue: q, Messages: make([]*Message, 0, min(room, q.total))}
	l := q.next()
	if l != nil && d.suspect(l.waiting[0]) {
		l, room = c.chooseSuspect(q), 1
		if b.Alone = d.suspect(l.waiting[0]); b.Alone && len(d.batches) > 0 {
			return nil, true
		}
	}
	for ; l != nil && len(b.Messages) < room; l = q.next() {
		if !b.Alone && d.suspect(l.waiting[0]) && !l.filling {
			if len(b.Messages) == 0 { // the messages before it are not sent
				return c.fill(q, room)
			}
			break
		}
		c.takeNext(b, l)
	}
	for _, m := range b.Messages {
		if m.line.filling {
			m.line.filling = false
			q.place(m.line)
		}
	}
	if len(b.Messages) == 0 {
		return nil, false
	}
	return b, false
}

// takeNext moves the first message of a line into the batch, or removes it if it is not to be sent. A
// message that cannot be sent with the earlier messages of its key in the batch ends the line's turn.
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
		m.Resent = m.Attempts > 0 || q.dest.recall(m).unsure
		b.Messages = append(b.Messages, m)
		l.sent++
		l.filling = true
	}
	q.place(l)
	c.tidy(l)
	q.pass()
}

// chooseSuspect returns the line to send from while the first message of a queue is suspect: one whose
// first message is not suspect, to show that the destination is healthy, if that is not known; else
// the suspect that has been tried least recently.
func (c *Core) chooseSuspect(q *queue) *line {
	var chosen *line
	for _, l := range q.readyLines() {
		m := l.waiting[0]
		switch suspect := q.dest.suspect(m); {
		case !suspect && !q.dest.well():
			return l
		case suspect && (chosen == nil || q.dest.recall(m).tried < q.dest.recall(chosen.waiting[0]).tried):
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
	if b.patient = d.Late && !b.Alone; b.patient {
		b.Limit *= lateLimit
	}
	if b.Alone {
		d.pastOf(b.Messages[0]).tried = c.now
	}
	d.pace.tokens -= float64(len(b.Messages))
	q.slow = q.slow && q.total > c.cfg.BatchSize
	d.batches = append(d.batches, b)
	c.before(c.now + c.slowAfter())
	c.do(Publish{b})
}

// aside reports whether other batches need not wait for this one.
func (b *Batch) aside() bool { return b.slow || b.queue.isolated() }

// asideMessages counts the messages of such batches.
func (c *Core) asideMessages() (n int) {
	for _, d := range c.dests {
		for _, b := range d.batches {
			if b.aside() {
				n += len(b.Messages)
			}
		}
	}
	return n
}

// watchBatches watches unanswered batches: others overtake a slow one, and a wait that blocks healthy
// messages is ended.
func (c *Core) watchBatches() {
	for _, d := range c.dests {
		for _, b := range d.batches {
			if !b.aside() && !c.before(b.sent+c.slowAfter()) {
				c.setAside(b)
			}
			if b.patient && !b.late && !c.before(b.sent+c.cfg.PublishTimeout) {
				c.late(b)
			}
			if !b.cut && c.holdsUp(b) {
				b.cut = true
				c.do(Cut{b})
			}
		}
	}
}

// setAside lets others overtake a batch: it does not count towards the parallelism of its queue,
// and its topics are isolated until they have shown that they are healthy.
func (c *Core) setAside(b *Batch) {
	b.slow = true
	for _, topic := range topicsOf(b.Messages) {
		c.isolate(b.queue.dest, topic)
	}
}

// late pauses what is not answered in time, as if it had failed; the answers are still awaited.
func (c *Core) late(b *Batch) {
	b.late = true
	err := waybill.UnavailableError(fmt.Errorf("no answer within %v; it is still waited for", c.cfg.PublishTimeout))
	if b.queue.dest.accepted > b.before {
		c.pauseTopics(b.queue.dest, b.Messages, err)
	} else {
		c.pause(b.queue, b.Messages, err)
	}
}

// holdsUp reports whether to stop waiting for a batch: others may own the lanes by now, or one of its
// topics has problems and blocks the messages of the others. That is so if a batch of several topics
// is slow, or, with late confirms, if messages sent much later are confirmed.
func (c *Core) holdsUp(b *Batch) bool {
	switch {
	case b.late && (!c.before(c.lease.until) || slices.ContainsFunc(b.Messages, c.strays)):
		return true
	case b.late:
		return b.queue.dest.heard > b.sent+c.cfg.PublishTimeout/2 && len(topicsOf(b.Messages)) > 1
	case b.slow && !b.patient:
		return len(topicsOf(b.Messages)) > 1 && !c.before(b.sent+2*c.slowAfter())
	}
	return false
}

// strays reports whether the lane of a message is no longer the relay's, or only under a later epoch.
func (c *Core) strays(m *Message) bool { return !c.lease.keeps(m.Lane) }

// topicsOf returns the topics of messages, in their order.
func topicsOf(messages []*Message) (topics []string) {
	for _, m := range messages {
		if !slices.Contains(topics, m.Topic) {
			topics = append(topics, m.Topic)
		}
	}
	return topics
}
