package relaycore

import (
	"errors"
	"slices"

	"github.com/waybill-go/waybill"
)

// Deferral. A message that cannot be sent now stays in memory while there is room for it. Beyond that
// it is moved to the waiting rows, its attempts unchanged, so that others can be read; it returns at
// a limited rate. All messages of a unit with a key are deferred together, in order, and only while
// none is in flight: a relay that takes over the lane would take the waiting ones for the earlier
// messages.

var (
	errPaused = waybill.UnavailableError(errors.New("the destination is paused"))
	errSlow   = waybill.UnavailableError(errors.New("the destination is slow"))
)

// share returns how much of the memory a slow queue may use: all of them together half of it.
func (c *Core) share() int {
	queues := 0
	for _, d := range c.dests {
		queues += len(d.queues)
	}
	return c.readAhead() / (2 * queues)
}

// trim defers what a queue holds beyond its limit, the latest messages first. There is a limit for a queue that
// is paused while there are other destinations, whose rows of the same messages would wait for this one's, and
// for a slow queue while memory is short. Of a slow queue the next line stays if it can be sent now: a line
// with more messages than the limit would return and be deferred forever.
func (c *Core) trim(q *queue) {
	total, why := c.share(), errSlow
	switch {
	case len(c.dests) > 1 && q.paused(c.now) > 0:
		total, why = 0, errPaused
	case !q.slow:
		return
	}
	lines := q.readyLines()
	if why == errSlow && c.open(q) > 0 {
		next := q.next()
		lines = slices.DeleteFunc(lines, func(l *line) bool { return l == next })
	}
	for _, l := range slices.Backward(lines) {
		over := q.total - total
		if over <= 0 {
			return
		}
		if l.key != "" {
			over = len(l.waiting)
		}
		c.deferLine(l, min(over, len(l.waiting)), why)
	}
}

// deferLine defers the last n messages of a line: all of them if it has a key. The first one takes the
// others along.
func (c *Core) deferLine(l *line, n int, why error) {
	from := l.waiting[len(l.waiting)-n].Position
	least := c.now + returnLeast
	least = max(least, l.in.until, l.in.dest.main.until)
	for i, m := range l.remove(func(m *Message) bool { return m.Position >= from }) {
		if i > 0 && l.key != "" {
			c.settleBehind(m)
			continue
		}
		c.settleLater(Settlement{
			Message: m, Outcome: Wait, After: l.in.dest.rests(m.Tenant, least) - c.now, Attempts: m.Attempts, Life: m.Life, Err: why,
		})
	}
	c.tidy(l)
}

// relieve makes room in memory that has been full for long because some queues are slow.
func (c *Core) relieve() {
	r := &c.read
	if !r.full {
		r.full, r.fullSince = true, c.now
	}
	if c.before(r.fullSince + c.slowAfter()/2) {
		return
	}
	r.fullSince = c.now
	share := c.share()
	for _, d := range c.dests {
		for _, q := range d.queues {
			if q.total > share && (len(c.dests) > 1 || len(d.queues) > 1) {
				q.slow = true
				c.trim(q)
			}
		}
	}
}
