package relaycore

import (
	"slices"
	"time"
)

const isolatedBatches = 16 // of one destination's isolated topics in flight

// dest is a destination with its state.
type dest struct {
	Dest
	main    *queue
	queues  []*queue // main, and those of isolated topics in the order in which they came
	pace    pace
	returns map[string]Time // of deferred messages, by tenant

	batches  []*Batch // in flight
	room     int      // current maximum of messages of a batch
	draining *queue   // it waits to send a message alone
	sends    int64    // batches so far, which numbers them
	accepted int64    // messages
	answered int64    // the latest batch of which a message was accepted
	heard    Time     // when the latest of those was sent
	cut      int64    // sends when a connection was last lost
	past     map[int64]*past
}

// firstRoom is the initial maximum of messages of a batch to a destination.
const firstRoom = 100

func newDest(d Dest) *dest {
	made := &dest{Dest: d, pace: pace{rate: d.Rate}, returns: make(map[string]Time), past: make(map[int64]*past)}
	made.main = newQueue(made, "")
	made.queues = []*queue{made.main}
	return made
}

// queueFor returns the queue of a topic's messages.
func (d *dest) queueFor(topic string) *queue {
	for _, q := range d.queues[1:] {
		if q.topic == topic {
			return q
		}
	}
	return d.main
}

// isolate gives a topic a queue of its own, if it has none.
func (c *Core) isolate(d *dest, topic string) *queue {
	q := d.queueFor(topic)
	if !q.isolated() {
		q = newQueue(d, topic)
		d.queues = append(d.queues, q)
		c.moveLines(d, topic)
	}
	return q
}

// rejoin ends the isolation of a topic.
func (c *Core) rejoin(q *queue) {
	q.dest.queues = slices.DeleteFunc(q.dest.queues, func(o *queue) bool { return o == q })
	c.moveLines(q.dest, q.topic)
}

// inFlight counts batches: those that count towards the parallelism of a queue, and those of the destination
// that others need not wait for.
func (d *dest) inFlight(q *queue) (running, aside int) {
	for _, b := range d.batches {
		if b.queue == q && !b.slow {
			running++
		}
		if b.aside() {
			aside++
		}
	}
	return running, aside
}

// alone reports whether a message is in flight with no other next to it.
func (d *dest) alone() bool { return len(d.batches) == 1 && d.batches[0].Alone }

// moveLines moves the lines of a topic to its current queue.
func (c *Core) moveLines(d *dest, topic string) {
	var filled []*line
	for _, l := range c.lines {
		if l.topic != topic || l.dest != d.Name {
			continue
		}
		if len(l.waiting) > 0 {
			filled = append(filled, l)
		} else {
			l.enter(d.queueFor(topic))
		}
	}
	for _, l := range byFirst(filled) { // they enter in a fixed order
		l.enter(d.queueFor(topic))
	}
}

// past is what is known of a message that was sent before, by its position.
type past struct {
	lane    Lane
	life    int
	unsure  bool // an attempt since the last requeue may have arrived
	since   Time // the earliest such attempt
	inBatch int  // connections lost with it among others
	alone   int  // connections lost with it alone in flight, just after the destination had accepted another
	tried   Time // when it was sent alone last
}

// pastOf returns the past of a message since its last requeue, to be changed.
func (d *dest) pastOf(m *Message) *past {
	p := d.past[m.Position]
	if p == nil || p.life != m.Life {
		p = &past{lane: m.Lane, life: m.Life}
		d.past[m.Position] = p
	}
	return p
}

// recall returns the past of a message since its last requeue, if there is any.
func (d *dest) recall(m *Message) past {
	if p := d.past[m.Position]; p != nil && p.life == m.Life {
		return *p
	}
	return past{}
}

// forget drops the past of messages in some lanes, except those in flight: in a leaving lane they may be
// sent again.
func (d *dest) forget(gone func(Lane) bool) {
	for position, p := range d.past {
		if gone(p.lane) && !d.flies(func(m *Message) bool { return m.Position == position }) {
			delete(d.past, position)
		}
	}
}

// flies reports whether a message for which kind returns true is in flight.
func (d *dest) flies(kind func(*Message) bool) bool {
	return slices.ContainsFunc(d.batches, func(b *Batch) bool { return slices.ContainsFunc(b.Messages, kind) })
}

// Suspects. A message that ends each connection it is sent on is found as follows. It is suspect once
// two connections were lost with it among others; a suspect is sent alone. If the connection is lost
// again, just after the destination has accepted another message, that counts against it; a loss
// during an outage does not. The second time it is poison.

const (
	suspectLosses = 2
	poisonLosses  = 2
)

// suspect reports whether the message must be sent alone.
func (d *dest) suspect(m *Message) bool { return d.recall(m).inBatch >= suspectLosses }

// well reports whether the destination has accepted a message that was sent after a connection to it
// was last lost.
func (d *dest) well() bool { return d.answered > d.cut }

// blame records that a connection was lost with a message in flight, and reports whether that proves it poison.
func (d *dest) blame(m *Message, alone bool) bool {
	p := d.pastOf(m)
	switch {
	case !alone:
		p.inBatch++
	case d.well():
		p.alone++
	}
	return p.alone >= poisonLosses
}

// rests returns until when a message of a tenant is deferred: at least until the given time, and
// after those of its tenant that were deferred before, at the destination's rate.
func (d *dest) rests(tenant string, least Time) Time {
	at := max(least, d.returns[tenant])
	rate := d.Rate
	if rate == 0 {
		rate = returnRate
	}
	if len(d.returns) > maxReturns {
		clear(d.returns)
	}
	d.returns[tenant] = at + time.Duration(float64(time.Second)/rate)
	return at.Truncate(returnStep) + returnStep // several together, because each look for them has a cost
}

const (
	returnRate  = 1000 // messages per second that return after deferral
	returnLeast = time.Second
	returnStep  = 500 * time.Millisecond
	maxReturns  = 10_000 // tenants; above that some messages return too early
)
