package relaycore

import (
	"slices"
	"time"
)

const isolatedBatches = 16 // of one destination's isolated topics in flight

// dest is a destination with what is known about it.
type dest struct {
	name     string
	follower bool
	late     bool
	rate     float64

	main     *queue
	isolated []*queue // topics in trouble, in the order in which they came
	topics   map[string]*queue
	pace     pace
	returns  map[string]Time // of deferred messages, by tenant

	batches  []*Batch // in flight
	away     int      // those of isolated topics, and those that are slow
	alone    *Batch   // in flight, with no other beside it
	draining *queue   // it waits to send a message alone
	sends    int64    // batches so far, which numbers them
	accepted int64    // messages
	answered int64    // the latest batch of which a message was accepted
	heard    Time     // when the latest of those was sent
	cut      int64    // sends when a connection was last lost
	past     map[int64]*past
}

func newDest(d Dest, follower bool) *dest {
	made := &dest{name: d.Name, follower: follower, late: d.Late, rate: d.Rate, topics: make(map[string]*queue),
		returns: make(map[string]Time), past: make(map[int64]*past)}
	made.main = newQueue(made, "", false)
	made.pace.rate = d.Rate
	return made
}

// queueFor returns the queue of a topic's messages.
func (d *dest) queueFor(topic string) *queue {
	if q := d.topics[topic]; q != nil {
		return q
	}
	return d.main
}

// queues returns all queues, those of isolated topics last.
func (d *dest) queues() []*queue { return append([]*queue{d.main}, d.isolated...) }

// isolate gives a topic a queue of its own.
func (c *Core) isolate(d *dest, topic string) *queue {
	if q := d.topics[topic]; q != nil {
		return q
	}
	q := newQueue(d, topic, true)
	d.topics[topic] = q
	d.isolated = append(d.isolated, q)
	c.moveLines(d, topic)
	return q
}

// rejoin ends the isolation of a topic.
func (c *Core) rejoin(q *queue) {
	d := q.dest
	delete(d.topics, q.topic)
	d.isolated = slices.DeleteFunc(d.isolated, func(o *queue) bool { return o == q })
	c.moveLines(d, q.topic)
}

// moveLines puts the lines of a topic into the queue that is now theirs.
func (c *Core) moveLines(d *dest, topic string) {
	for _, l := range c.linesWhere(func(l *line) bool { return l.topic == topic && l.dest == d.name }) {
		l.enter(d.queueFor(topic))
	}
}

// past is what is remembered of a message that was sent before, by its position.
type past struct {
	lane    Lane
	life    int
	unsure  bool // an attempt of this life may have arrived
	since   Time // the earliest such attempt
	inBatch int  // connections lost with it among others
	alone   int  // connections lost with it alone, just after the destination had accepted another
	tried   Time // when it was sent alone last
}

// pastOf returns what is remembered of a message, and makes it if there is nothing.
func (d *dest) pastOf(m *Message) *past {
	p := d.past[m.Position]
	if p == nil || p.life != m.Life {
		p = &past{lane: m.Lane, life: m.Life}
		d.past[m.Position] = p
	}
	return p
}

// unsure returns since when an attempt of the message's life may have arrived.
func (d *dest) unsure(m *Message) (since Time, yes bool) {
	p := d.past[m.Position]
	if p == nil || !p.unsure || p.life != m.Life {
		return 0, false
	}
	return p.since, true
}

// forget drops what is remembered of messages in some lanes, but for those in flight: of a lane that leaves they
// may be sent again.
func (d *dest) forget(gone func(Lane) bool) {
	for position, p := range d.past {
		if gone(p.lane) && !d.flies(position) {
			delete(d.past, position)
		}
	}
}

// flies reports whether the message at a position is in flight.
func (d *dest) flies(position int64) bool {
	return slices.ContainsFunc(d.batches, func(b *Batch) bool {
		return slices.ContainsFunc(b.Messages, func(m *Message) bool { return m.Position == position })
	})
}

// Suspects. A message that ends each connection it is sent on is found as follows. It is suspect once
// two connections were lost with it among others; a suspect is sent alone. If the connection is lost
// again, just after the destination has accepted another message, that speaks against it; what happens
// during an outage does not. The second time it is poison.

const (
	suspectLosses = 2
	poisonLosses  = 2
)

// suspect reports whether the message must be sent alone.
func (d *dest) suspect(m *Message) bool {
	p := d.past[m.Position]
	return p != nil && p.inBatch >= suspectLosses
}

// well reports whether the destination has accepted something that was sent after a connection to it
// was last lost.
func (d *dest) well() bool { return d.answered > d.cut }

// blame notes that a connection was lost under a message, and reports whether that proves it poison.
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

// rests returns until when a deferred message of a tenant stays away: at least until a time, and
// behind those of its tenant that were deferred before, at the destination's rate.
func (d *dest) rests(tenant string, least Time) Time {
	at := max(least, d.returns[tenant])
	rate := d.rate
	if rate == 0 {
		rate = returnRate
	}
	if len(d.returns) > maxReturns {
		clear(d.returns)
	}
	d.returns[tenant] = at + time.Duration(float64(time.Second)/rate)
	return at.Truncate(returnStep) + returnStep // several together: each look for them costs
}

const (
	returnRate  = 1000 // messages per second that come back after they were deferred
	returnLeast = time.Second
	returnStep  = 500 * time.Millisecond
	maxReturns  = 10_000 // tenants; then some messages come back too early
)
