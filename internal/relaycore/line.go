package relaycore

import (
	"cmp"
	"slices"
)

// unit is what order is kept by: a key of a topic, for each destination. The messages of a topic
// without a key have a unit for each tenant, which keeps no order beyond that of positions.
type unit struct{ dest, topic, key, tenant string }

func unitOf(m *Message) unit {
	if m.Key == "" {
		return unit{m.Dest, m.Topic, "", m.Tenant}
	}
	return unit{m.Dest, m.Topic, m.Key, ""}
}

// line holds what was claimed of a unit and waits to be sent, by position. Of a unit with a key one
// batch is in flight at a time.
type line struct {
	unit
	in      *queue
	waiting []*Message

	sent    int  // messages in flight
	filling bool // the batch that is being filled takes from it
	closed  int  // outcomes being stored that nothing may pass
	behind  int  // those of them behind which the rest of the unit waits in the store

	of *tenant // whose heap the line is in; nil if it is in none
	at int     // its place there
}

// blocked reports whether messages of the unit are in flight, or being settled, that nothing may pass.
func (l *line) blocked() bool {
	return l.closed > 0 || l.key != "" && l.sent > 0 && !l.filling
}

// ready reports whether the first message may be sent.
func (l *line) ready() bool { return len(l.waiting) > 0 && !l.blocked() }

// idle reports whether nothing is known of the unit.
func (l *line) idle() bool {
	return len(l.waiting) == 0 && l.sent == 0 && l.closed == 0 && l.behind == 0
}

// precedes reports whether a message comes before everything that is known of the unit.
func (l *line) precedes(m *Message) bool {
	return l.sent == 0 && l.closed == 0 && !l.holdsBefore(m)
}

// holdsBefore reports whether a message before m waits in the line.
func (l *line) holdsBefore(m *Message) bool {
	return len(l.waiting) > 0 && l.waiting[0].Position < m.Position
}

// insert adds a message where its position belongs.
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

// line returns the line of a unit and makes it if there is none.
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

// tidy forgets a line of which nothing is known any more.
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
