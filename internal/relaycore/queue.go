package relaycore

import (
	"container/heap"
)

// queue is where messages wait for a destination: its own queue, or that of one of its topics that is
// isolated because it is in trouble, so that it holds up nobody else. Tenants take turns; of each
// tenant the message with the lowest position is next.
type queue struct {
	dest  *dest
	topic string // of an isolated topic
	attempts

	turns   []*tenant // those with lines that are ready, the next one first
	tenants map[string]*tenant
	total   int // messages in all lines
	slow    bool
}

// tenant is what one tenant has in a queue.
type tenant struct {
	name   string
	total  int   // messages in all lines
	ready  lines // a heap by the positions of their first messages
	queued bool  // among the turns
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

// place puts a line where its first message belongs, or takes it out if it is not ready.
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

// remove takes a line out of the heap that it is in.
func (q *queue) remove(l *line) {
	if l.of != nil {
		heap.Remove(&l.of.ready, l.at)
		l.of = nil
	}
}

// next returns the line whose first message is the next one, nil if none is ready. The line stays
// where it is until it is placed again.
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

// pass gives the turn to the next tenant.
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
