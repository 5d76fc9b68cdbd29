package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill/internal/relaycore"
)

// consumer is a model of a program that takes the messages of a destination out of its queue and handles
// them in the transaction of an inbox: the record of a message is inserted first, then the handler has its
// effect, and both commit together. Its processes crash and lose connections; what they have not
// acknowledged is delivered again.
type consumer struct {
	w        *world
	dest     string
	queue    []string // messages that are to be delivered
	out      []*delivery
	returns  int // messages that will be delivered again
	readers  []*reader
	records  map[string]record // of the inbox, committed
	open     map[string]*delivery
	effects  map[string]int
	failures map[string]int
	letters  []string // of messages that the handler has refused too often
}

// record says what is known of a message.
type record int

const (
	handled record = iota + 1
	refused
)

// reader is one process of a consumer.
type reader struct {
	gone   bool
	resume relaycore.Time // it is paused until then
}

// delivery is a message that a process has received and has not acknowledged.
type delivery struct {
	id   string
	by   *reader
	over bool // the connection that it came on has ended
}

const (
	prefetch    = 3           // deliveries of a process
	gate        = time.Second // that a copy waits for the transaction of another
	outageWait  = time.Second // before a delivery that met an outage comes again
	deadSession = 5 * time.Second
)

func newConsumer(w *world, dest string) *consumer {
	c := &consumer{w: w, dest: dest, records: make(map[string]record), open: make(map[string]*delivery), effects: make(map[string]int), failures: make(map[string]int)}
	for range w.plan.Readers {
		c.readers = append(c.readers, &reader{})
	}
	return c
}

// full reports whether the queue takes no more.
func (c *consumer) full() bool {
	return c.w.plan.Limit > 0 && len(c.queue)+len(c.out)+c.returns >= c.w.plan.Limit
}

// arrive adds a message to the queue.
func (c *consumer) arrive(id string) {
	c.queue = append(c.queue, id)
	c.deliver()
}

// deliver gives messages to processes that have room.
func (c *consumer) deliver() {
	for _, r := range c.readers {
		for len(c.queue) > 0 && !r.gone && !c.w.broker.away && c.count(r) < prefetch {
			d := &delivery{id: c.queue[0], by: r}
			c.queue = c.queue[1:]
			c.out = append(c.out, d)
			c.later(d, c.w.latency(20*time.Millisecond), c.begin)
		}
	}
}

func (c *consumer) count(r *reader) (n int) {
	for _, d := range c.out {
		if d.by == r {
			n++
		}
	}
	return n
}

// later continues with a delivery, unless its process has ended. A paused process continues later.
func (c *consumer) later(d *delivery, after time.Duration, do func(*delivery)) {
	c.w.after(after, func() {
		switch {
		case d.by.gone:
		case c.w.now < d.by.resume:
			c.later(d, d.by.resume-c.w.now, do)
		default:
			do(d)
		}
	})
}

// begin inserts the record. A copy waits for the transaction that has inserted it, but not for long.
func (c *consumer) begin(d *delivery) {
	switch {
	case c.records[d.id] != 0: // it was handled, or refused
		c.w.skipped++
		c.acknowledge(d)
	case c.w.chance(c.w.plan.Faults / 4):
		c.again(d, outageWait)
	case c.open[d.id] != nil:
		wait := c.w.between(0, 2*gate)
		c.later(d, min(wait, gate), func(d *delivery) {
			if wait > gate && c.open[d.id] != nil {
				c.again(d, 0)
				return
			}
			c.begin(d)
		})
	default:
		c.open[d.id] = d
		c.later(d, c.w.latency(100*time.Millisecond), c.run)
	}
}

// run ends the handler and its transaction.
func (c *consumer) run(d *delivery) {
	switch w := c.w; {
	case w.chance(w.plan.Faults / 3):
		c.rollBack(d)
		c.refuse(d)
	case w.chance(w.plan.Faults / 5): // the commit fails before it takes effect
		c.rollBack(d)
		c.again(d, outageWait)
	default:
		c.commit(d.id, handled)
		c.rollBack(d)
		if w.chance(w.plan.Faults / 5) { // it has committed, and the answer is lost
			c.again(d, outageWait)
			return
		}
		c.later(d, w.latency(20*time.Millisecond), c.acknowledge)
	}
}

// commit stores a record, and the effect of the handler with it.
func (c *consumer) commit(id string, as record) {
	c.records[id] = as
	if as == handled {
		c.effects[id]++
		c.w.figures.effects++
		c.w.say("%s has its effect at %q", id, c.dest)
	}
	if n := c.effects[id]; n > 1 {
		c.w.fail("%s has its effect at %q %d times", id, c.dest, n)
	}
}

// rollBack ends a transaction.
func (c *consumer) rollBack(d *delivery) {
	if c.open[d.id] == d {
		delete(c.open, d.id)
	}
}

// refuse counts a failed attempt; the last one makes a dead letter.
func (c *consumer) refuse(d *delivery) {
	c.failures[d.id]++
	if c.failures[d.id] <= max(0, c.w.plan.Retries) {
		c.again(d, c.w.between(time.Second, 5*time.Second))
		return
	}
	c.commit(d.id, refused)
	c.letters = append(c.letters, d.id)
	c.later(d, c.w.latency(20*time.Millisecond), c.acknowledge)
}

// acknowledge ends a delivery, if the connection that it came on still lasts.
func (c *consumer) acknowledge(d *delivery) {
	if d.over {
		return
	}
	if c.w.chance(c.w.plan.Faults / 4) {
		c.cut(d.by)
		return
	}
	c.end(d)
	c.deliver()
}

func (c *consumer) end(d *delivery) {
	d.over = true
	c.out = slices.DeleteFunc(c.out, func(o *delivery) bool { return o == d })
}

// again has a message delivered again some time later.
func (c *consumer) again(d *delivery, after time.Duration) {
	if d.over {
		return
	}
	c.end(d)
	c.returns++
	c.w.after(after, func() {
		c.returns--
		c.arrive(d.id)
	})
	c.deliver()
}

// cut ends the connection of a process: what it has not acknowledged is delivered again.
func (c *consumer) cut(r *reader) {
	for _, d := range slices.Clone(c.out) {
		if d.by == r {
			c.again(d, c.w.between(0, time.Second))
		}
	}
}

// crash ends a process; the database notices later. Another one takes its place.
func (c *consumer) crash(i int) {
	old := c.readers[i]
	c.readers[i] = &reader{}
	old.gone = true
	c.w.say("a consumer of %q crashes", c.dest)
	c.w.after(c.w.between(0, deadSession), func() {
		for id, d := range c.open {
			if d.by == old {
				delete(c.open, id)
			}
		}
		c.deliver()
	})
	c.cut(old)
}

// requeue handles a dead letter again, from the store: once, whatever the result.
func (c *consumer) requeue(i int) {
	id := c.letters[i]
	c.letters = slices.Delete(c.letters, i, i+1)
	c.w.say("an operator requeues the letter of %s at %q", id, c.dest)
	if c.w.chance(0.3) {
		c.letters = append(c.letters, id)
		return
	}
	c.commit(id, handled)
}

// idle reports whether there is nothing to handle.
func (c *consumer) idle() bool { return len(c.queue)+len(c.out)+len(c.open)+c.returns == 0 }

// judge checks that what has arrived has had its effect, or is a dead letter, and nothing else has.
func (c *consumer) judge(messages int) error {
	for n := range messages {
		id := fmt.Sprint("m", n)
		arrived := c.w.broker.ledger.accepted[id+"@"+c.dest] > 0
		letter := slices.Contains(c.letters, id)
		if effect := c.effects[id] > 0; arrived != (effect || letter) || effect && letter {
			return fmt.Errorf("%s has arrived at %q: %v; it has had its effect: %v, and is a dead letter: %v", id, c.dest, arrived, effect, letter)
		}
	}
	return nil
}
