package membroker

import (
	"context"
	"fmt"
	"slices"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

type subscriber struct {
	broker *Broker
	queues []*queue
	err    error // the error of an invalid subscription
}

// Subscribe runs entirely on the caller's goroutine.
func (s *subscriber) Subscribe(ctx context.Context, prefetch int, deliver func(contract.Delivery)) error {
	if s.err != nil {
		return s.err
	}
	if prefetch < 1 {
		return &waybill.InvalidError{Field: "prefetch", Reason: fmt.Sprintf("is %d; it must be at least 1", prefetch)}
	}
	r := &receiver{broker: s.broker, queues: s.queues, room: prefetch, wake: make(chan struct{}, 1)}
	s.broker.server.attach(r)
	defer s.broker.server.detach(r)
	for ctx.Err() == nil {
		if s.broker.closed.Load() {
			return waybill.UnavailableError(errClosed)
		}
		if d := s.broker.server.nextOf(r); d != nil {
			deliver(d)
			continue
		}
		select {
		case <-ctx.Done():
		case <-s.broker.done:
		case <-r.wake:
		}
	}
	return nil
}

// receiver is one running Subscribe. The server's lock guards all but broker
// and wake.
type receiver struct {
	broker *Broker
	queues []*queue
	room   int           // how many more deliveries it may hold
	inbox  []*delivery   // handed out and not yet passed to deliver
	wake   chan struct{} // has a value if inbox is not empty
}

// take hands the first message of q to r. The server's lock is held.
func (r *receiver) take(s *server, q *queue) {
	d := &delivery{receiver: r, queue: q, entry: q.ready[0]}
	q.ready = slices.Delete(q.ready, 0, 1)
	s.held[d] = struct{}{}
	r.room--
	r.inbox = append(r.inbox, d)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// fill gives r messages of its queues, the earliest published first, as long as there is
// room. The server's lock is held.
func (r *receiver) fill(s *server) {
	for r.room > 0 {
		var first *queue
		for _, q := range r.queues {
			if len(q.ready) > 0 && (first == nil || q.ready[0].position < first.ready[0].position) {
				first = q
			}
		}
		if first == nil {
			return
		}
		r.take(s, first)
	}
}

func (s *server) attach(r *receiver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.receivers[r] = struct{}{}
	for _, q := range r.queues {
		q.receivers = append(q.receivers, r)
	}
	r.fill(s)
}

func (s *server) detach(r *receiver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(r)
}

// leave removes r from its queues and requeues what it has not passed on. It may be
// repeated. The lock is held.
func (s *server) leave(r *receiver) {
	delete(s.receivers, r)
	for _, q := range r.queues {
		q.receivers = slices.DeleteFunc(q.receivers, func(other *receiver) bool { return other == r })
	}
	r.queues = nil // so that no settlement hands out more to it
	for _, d := range r.inbox {
		s.giveBack(d)
	}
	r.inbox = nil
}

// nextOf takes the next delivery out of r's inbox, or returns nil.
func (s *server) nextOf(r *receiver) *delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(r.inbox) == 0 {
		return nil
	}
	d := r.inbox[0]
	r.inbox = slices.Delete(r.inbox, 0, 1)
	d.passed = true
	return d
}
