// Package handover passes on to its user what a subscription has received: in order, one after the
// other, and no more at once than the user's prefetch.
package handover

import (
	"context"
	"slices"
	"sync"
)

// Queue holds deliveries that are received and not yet passed on. Its methods are safe for
// concurrent use; Serve runs once.
type Queue[D any] struct {
	take   func(D) bool
	slots  chan struct{} // one value for each delivery that is passed on and not yet freed
	more   chan struct{} // has a value if list may have grown
	failed chan error    // an error that does not go away by itself

	mu   sync.Mutex
	list []D
}

// New returns a queue that passes on up to prefetch deliveries until one of them is freed. Before
// it passes one on it calls take, while the queue is locked; if that returns false the delivery is
// skipped.
func New[D any](prefetch int, take func(D) bool) *Queue[D] {
	return &Queue[D]{
		take:   take,
		slots:  make(chan struct{}, prefetch),
		more:   make(chan struct{}, 1),
		failed: make(chan error, 1),
	}
}

// Push adds deliveries.
func (q *Queue[D]) Push(list ...D) {
	q.mu.Lock()
	q.list = append(q.list, list...)
	q.mu.Unlock()
	Signal(q.more)
}

// Free makes room for another delivery, once for each that was passed on.
func (q *Queue[D]) Free() { <-q.slots }

// Fail ends Serve with an error that does not go away by itself.
func (q *Queue[D]) Fail(err error) {
	select {
	case q.failed <- err:
	default:
	}
}

// Serve calls deliver for one delivery after the other, until ctx is done, which is no error, or
// closed is closed, when it returns errClosed, or Fail was called, whose error it returns.
func (q *Queue[D]) Serve(ctx context.Context, closed <-chan struct{}, errClosed error, deliver func(D)) error {
	for {
		if ctx.Err() != nil {
			return nil
		}
		select { // first of all, because the select below picks any of several that are ready
		case <-closed:
			return errClosed
		case err := <-q.failed:
			return err
		default:
		}
		if d, ok := q.next(); ok {
			deliver(d)
			continue
		}
		var slots chan struct{}
		if q.waits() {
			slots = q.slots
		}
		select {
		case <-ctx.Done():
		case <-closed:
		case err := <-q.failed:
			return err
		case <-q.more:
		case slots <- struct{}{}:
			q.Free() // next takes it
		}
	}
}

func (q *Queue[D]) waits() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.list) > 0
}

// next takes the first delivery and a slot for it, if there are both.
func (q *Queue[D]) next() (d D, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var none D
	for len(q.list) > 0 {
		select {
		case q.slots <- struct{}{}:
		default:
			return none, false
		}
		d, q.list[0] = q.list[0], none
		q.list = q.list[1:]
		if q.take(d) {
			return d, true
		}
		q.Free()
	}
	return none, false
}

// Len returns the number of queued deliveries.
func (q *Queue[D]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.list)
}

// Remove removes the queued deliveries for which is returns true; it is called while the queue is locked.
func (q *Queue[D]) Remove(is func(D) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = slices.DeleteFunc(q.list, is)
}

// Waiting returns a copy of the queued deliveries.
func (q *Queue[D]) Waiting() []D {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.list)
}

// Drain empties the queue and returns what was in it.
func (q *Queue[D]) Drain() []D {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := q.list
	q.list = nil
	return left
}

// Signal puts a value into a channel with room for one, unless there is one.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Share returns the part of the prefetch that source i of n may hold: at least 1, and the first
// sources get the remainder.
func Share(prefetch, i, n int) int {
	share := prefetch / n
	if i < prefetch%n {
		share++
	}
	return max(share, 1)
}
