package consumer

import (
	"context"
	"sync"
)

// lines are the deliveries that wait to be handled in batches. Those of one key form one line. A
// batch takes deliveries from its front, and until it has finished with them no other batch takes
// from that line. A delivery without an order has a line to itself.
type lines struct {
	mu     sync.Mutex
	byKey  map[string]*line
	ready  []*line         // with deliveries waiting and none taken, first come first served
	wake   chan struct{}   // has room for one: there may be a ready line
	period context.Context // nothing is started once it has ended
}

type line struct {
	key     string // "" for a delivery without an order
	waiting []*held
	taken   bool // some of it are being handled
}

// group is what was taken from one line.
type group struct {
	line *line
	list []*held
}

func newLines() *lines {
	return &lines{byKey: make(map[string]*line), wake: make(chan struct{}, 1), period: context.Background()}
}

// open lets deliveries be started until ctx ends. The lines of those that were started before continue.
func (q *lines) open(ctx context.Context) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.period = ctx
}

// add puts d at the end of the line of key, or, without a key, into a line of its own. It returns
// false if nothing more is started and there is no line yet.
func (q *lines) add(key string, d *held) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.byKey[key]
	if l == nil && q.period.Err() != nil {
		return false
	}
	if l == nil {
		l = &line{key: key}
		if key != "" {
			q.byKey[key] = l
		}
	}
	l.waiting = append(l.waiting, d)
	if len(l.waiting) == 1 && !l.taken {
		q.ready = append(q.ready, l)
	}
	q.signal()
	return true
}

func (q *lines) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// wait returns when there may be something to take, and false when ctx is done.
func (q *lines) wait(ctx context.Context) bool {
	select {
	case <-q.wake:
		return true
	case <-ctx.Done():
		return false
	}
}

// take takes up to n deliveries, those of a line in their order, and no more than each of them allows in its
// batch. finish must be called with what take returns.
func (q *lines) take(n int) []group {
	q.mu.Lock()
	defer q.mu.Unlock()
	var taken []group
	count := 0
	fits := func(d *held) bool {
		if most := min(n, d.most); count < most {
			n, count = most, count+1
			return true
		}
		return false
	}
	for len(q.ready) > 0 && fits(q.ready[0].waiting[0]) {
		l, size := q.ready[0], 1
		for size < len(l.waiting) && fits(l.waiting[size]) {
			size++
		}
		taken = append(taken, group{l, l.waiting[:size:size]})
		l.waiting, l.taken = l.waiting[size:], true
		q.ready = q.ready[1:]
	}
	if len(q.ready) > 0 {
		q.signal()
	}
	return taken
}

// finish frees lines. What is left in the groups, because their batch has failed, goes back to the front of its
// line. If nothing more is started, finish removes all of these lines and returns their deliveries.
func (q *lines) finish(groups []group) (left []*held) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, g := range groups {
		l := g.line
		l.waiting, l.taken = append(g.list, l.waiting...), false
		switch {
		case len(l.waiting) == 0:
			q.remove(l)
		case q.period.Err() != nil:
			left = append(left, q.remove(l)...)
		default:
			q.ready = append(q.ready, l)
		}
	}
	if len(q.ready) > 0 {
		q.signal()
	}
	return left
}

// leave removes a line while a batch handles some of it, and returns what waits there.
func (q *lines) leave(l *line) []*held {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.remove(l)
}

// remove removes a line and returns what waits in it. The lock is held.
func (q *lines) remove(l *line) []*held {
	if q.byKey[l.key] == l {
		delete(q.byKey, l.key)
	}
	list := l.waiting
	l.waiting = nil
	return list
}

// close removes the lines of which nothing is being handled, and returns what waits in them, if they are still
// open for ctx. Otherwise they belong to the next period.
func (q *lines) close(ctx context.Context) (left []*held) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.period != ctx {
		q.signal() // the wake-up may have been consumed before
		return nil
	}
	for _, l := range q.ready {
		left = append(left, q.remove(l)...)
	}
	q.ready = nil
	return left
}
