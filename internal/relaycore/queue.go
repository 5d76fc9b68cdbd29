package relaycore

import (
	"cmp"
	"container/heap"
	"slices"
)

// unit is the unit of ordering: a key of a topic, for each destination. The messages of a topic
// without a key have a unit for each tenant, which keeps no order beyond that of positions.
type unit struct{ dest, topic, key, tenant string }

func unitOf(m *Message) unit {
	if m.Key == "" {
		return unit{m.Dest, m.Topic, "", m.Tenant}
	}
	return unit{m.Dest, m.Topic, m.Key, ""}
}

// line holds the claimed messages of a unit that wait to be sent, by position. A unit with a key
// has at most one batch in flight.
type line struct {
	unit
	in      *queue
	waiting []*Message

	sent    int  // messages in flight
	filling bool // the batch that is being filled takes from it
	closed  int  // outcomes being stored that nothing may overtake
	behind  int  // of these, outcomes behind which the rest of the unit waits in the store

	of *tenant // the tenant whose heap holds the line; nil if none does
	at int     // its index there
}

// blocked reports whether messages of the unit that nothing may overtake are in flight or being settled.
func (l *line) blocked() bool {
	return l.closed > 0 || l.key != "" && l.sent > 0 && !l.filling
}

// ready reports whether the first message may be sent.
func (l *line) ready() bool { return len(l.waiting) > 0 && !l.blocked() }

// idle reports whether the line has no state.
func (l *line) idle() bool {
	return len(l.waiting) == 0 && l.sent == 0 && l.closed == 0 && l.behind == 0
}

// precedes reports whether a message comes before all known messages of the unit.
func (l *line) precedes(m *Message) bool {
	return l.sent == 0 && l.closed == 0 && !l.holdsBefore(m)
}

// holdsBefore reports whether a message before m waits in the line.
func (l *line) holdsBefore(m *Message) bool {
	return len(l.waiting) > 0 && l.waiting[0].Position < m.Position
}

// triesFirst reports whether a message of the unit is in flight that never waited.
func (l *line) triesFirst() bool {
	return l.sent > 0 && l.in.dest.flies(func(m *Message) bool { return m.line == l && !m.Waiting })
}

// joinedBy reports whether a message whose key is blocked, possibly at another destination, stays in memory: an
// earlier one of its unit that never waited is held, so that nothing of the unit waits. In the store it would
// be due before that one if that has to wait, too.
func (l *line) joinedBy(m *Message) bool {
	return l.triesFirst() || slices.ContainsFunc(l.waiting, func(o *Message) bool { return !o.Waiting && o.Position < m.Position })
}

// insert adds a message in the order of positions.
func (l *line) insert(m *Message) {
	at := len(l.waiting)
	for at > 0 && l.waiting[at-1].Position > m.Position {
		at--
	}
	l.insertAt(at, m)
}

func (l *line) insertAt(at int, m *Message) {
	m.line = l
	l.waiting = slices.Insert(l.waiting, at, m)
	l.in.count(m, 1)
	l.in.place(l)
}

// take removes the first message. The caller places the line again.
func (l *line) take() *Message {
	m := l.waiting[0]
	l.waiting[0] = nil
	l.waiting = l.waiting[1:]
	l.in.count(m, -1)
	return m
}

// remove removes the messages for which drop returns true, and returns them.
func (l *line) remove(drop func(*Message) bool) (removed []*Message) {
	l.waiting = slices.DeleteFunc(l.waiting, func(m *Message) bool {
		if !drop(m) {
			return false
		}
		removed = append(removed, m)
		l.in.count(m, -1)
		return true
	})
	l.in.place(l)
	return removed
}

// enter moves the line to a queue.
func (l *line) enter(q *queue) {
	if l.in == q {
		return
	}
	if l.in != nil {
		l.in.remove(l)
	}
	for _, m := range l.waiting {
		l.in.count(m, -1)
		q.count(m, 1)
	}
	l.in = q
	q.place(l)
}

// line returns the line of a unit, and creates it if there is none.
func (c *Core) line(u unit, d *dest) *line {
	l := c.lines[u]
	if l == nil {
		if last := len(c.spare) - 1; last >= 0 {
			l, c.spare = c.spare[last], c.spare[:last]
		} else {
			l = &line{}
		}
		l.unit, l.in = u, nil
		c.lines[u] = l
	}
	l.enter(d.queueFor(u.topic))
	return l
}

// tidy removes a line without state.
func (c *Core) tidy(l *line) {
	if l.idle() {
		l.in.remove(l)
		delete(c.lines, l.unit)
		*l = line{waiting: l.waiting[:0]}
		c.spare = append(c.spare, l)
	}
}

// byFirst sorts lines by the positions of their first messages.
func byFirst(lines []*line) []*line {
	slices.SortFunc(lines, func(a, b *line) int { return cmp.Compare(a.waiting[0].Position, b.waiting[0].Position) })
	return lines
}

// queue is where messages wait for a destination: its main queue, or that of a topic that is isolated
// because of problems, so that it does not block others. Tenants are served round robin; of each
// tenant the message with the lowest position is next.
type queue struct {
	dest  *dest
	topic string // of an isolated topic
	attempts

	turns   []*tenant // tenants with ready lines, the next one first
	tenants map[string]*tenant
	total   int // messages in all lines
	slow    bool
}

// tenant is the part of one tenant in a queue.
type tenant struct {
	name   string
	total  int   // messages in all lines
	ready  lines // a heap by the positions of their first messages
	queued bool  // is in turns
}

func newQueue(d *dest, topic string) *queue {
	return &queue{dest: d, topic: topic, tenants: make(map[string]*tenant)}
}

// isolated reports whether the queue is, or was, that of an isolated topic.
func (q *queue) isolated() bool { return q != q.dest.main }

// count adds n messages of m's tenant.
func (q *queue) count(m *Message, n int) {
	t := q.tenant(m.Tenant)
	t.total += n
	q.total += n
	q.tidy(t)
}

func (q *queue) tenant(name string) *tenant {
	t := q.tenants[name]
	if t == nil {
		t = &tenant{name: name}
		q.tenants[name] = t
	}
	return t
}

func (q *queue) tidy(t *tenant) {
	if t.total == 0 && len(t.ready) == 0 && !t.queued {
		delete(q.tenants, t.name)
	}
}

// place moves a line to its place in the heap, or removes it if it is not ready.
func (q *queue) place(l *line) {
	if l.of != nil && l.ready() && l.of.name == l.waiting[0].Tenant {
		heap.Fix(&l.of.ready, l.at)
		return
	}
	q.remove(l)
	if !l.ready() {
		return
	}
	l.of = q.tenant(l.waiting[0].Tenant)
	heap.Push(&l.of.ready, l)
	if !l.of.queued {
		l.of.queued = true
		q.turns = append(q.turns, l.of)
	}
}

// remove removes a line from its heap.
func (q *queue) remove(l *line) {
	if l.of != nil {
		heap.Remove(&l.of.ready, l.at)
		l.of = nil
	}
}

// next returns the line whose first message is the next one, nil if none is ready. The line keeps
// its place until place is called.
func (q *queue) next() *line {
	for len(q.turns) > 0 {
		t := q.turns[0]
		if len(t.ready) > 0 {
			return t.ready[0]
		}
		q.turns[0] = nil
		q.turns = q.turns[1:]
		t.queued = false
		q.tidy(t)
	}
	return nil
}

// pass passes the turn to the next tenant.
func (q *queue) pass() {
	if len(q.turns) > 1 {
		t := q.turns[0]
		q.turns = append(q.turns[1:], t)
	}
}

// readyLines returns the lines that are ready, by position.
func (q *queue) readyLines() []*line {
	var all []*line
	for _, t := range q.turns {
		all = append(all, t.ready...)
	}
	return byFirst(all)
}

// lines is a heap of lines by the positions of their first messages.
type lines []*line

// Len implements [heap.Interface].
func (h lines) Len() int { return len(h) }

// Less implements [heap.Interface].
func (h lines) Less(i, j int) bool { return h[i].waiting[0].Position < h[j].waiting[0].Position }

// Swap implements [heap.Interface].
func (h lines) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push implements [heap.Interface].
func (h *lines) Push(l any) {
	l.(*line).at = len(*h)
	*h = append(*h, l.(*line))
}

// Pop implements [heap.Interface].
func (h *lines) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return l
}
