package membroker

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/request"
)

// server is the broker behind the connections. One lock guards all its queues.
type server struct {
	discovery exchange

	mu     sync.Mutex
	last   uint64                       // position of the last message
	topics map[string]map[string]*queue // topic → group → queue
	to     map[string]*queue            // destination → queue

	receivers map[*receiver]struct{} // the running Subscribes
	held      map[*delivery]struct{} // handed out and not settled
}

func newServer() *server {
	return &server{
		topics: make(map[string]map[string]*queue),
		to:     make(map[string]*queue),

		receivers: make(map[*receiver]struct{}),
		held:      make(map[*delivery]struct{}),
	}
}

// queue holds what one group has yet to receive from one address, in the order of
// positions. While one of its receivers has room, nothing is ready.
type queue struct {
	ready     []*entry
	receivers []*receiver // those that run, starting with the next in rotation
}

// entry is one message in one queue. It never changes.
type entry struct {
	mail        *mail
	position    uint64
	redelivered bool
}

// declare returns the queues of a subscription, creating missing ones.
func (s *server) declare(sub consumer.Subscription) []*queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*queue
	for _, topic := range sub.Topics {
		groups := s.topics[topic]
		if groups == nil {
			groups = make(map[string]*queue)
			s.topics[topic] = groups
		}
		if groups[sub.Group] == nil {
			groups[sub.Group] = new(queue)
		}
		list = append(list, groups[sub.Group])
	}
	if sub.To != "" {
		if s.to[sub.To] == nil {
			s.to[sub.To] = new(queue)
		}
		list = append(list, s.to[sub.To])
	}
	return list
}

// publish puts m into each queue of its address.
func (s *server) publish(m *mail) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	found := false
	for _, q := range s.topics[m.topic] {
		if m.topic != "" {
			q.put(s, &entry{mail: m, position: s.last})
			found = true
		}
	}
	if q := s.to[m.to]; m.to != "" && q != nil {
		q.put(s, &entry{mail: m, position: s.last})
		found = true
	}
	if !found && !request.IsAddress(m.to) { // the requester is gone
		return waybill.PermanentError(waybill.ReasonUnroutable,
			fmt.Errorf("membroker: nobody has subscribed to %q", m.topic+m.to))
	}
	return nil
}

// put inserts e by its position and hands it out if a receiver has room, in rotation. The
// lock is held.
func (q *queue) put(s *server, e *entry) {
	i, _ := slices.BinarySearchFunc(q.ready, e, func(a, b *entry) int {
		return cmp.Compare(a.position, b.position)
	})
	q.ready = slices.Insert(q.ready, i, e)
	if i := slices.IndexFunc(q.receivers, func(r *receiver) bool { return r.room > 0 }); i >= 0 {
		r := q.receivers[i]
		q.receivers = append(slices.Delete(q.receivers, i, i+1), r)
		r.take(s, q)
	}
}

// settle ends a delivery. It reports false if the delivery has ended before: by another
// settlement, or because its connection was closed. The lock is held.
func (s *server) settle(d *delivery) bool {
	if _, ok := s.held[d]; !ok {
		return false
	}
	delete(s.held, d)
	d.receiver.room++
	return true
}

// giveBack makes a delivery's message ready again. The lock is held.
func (s *server) giveBack(d *delivery) {
	if s.settle(d) {
		d.queue.put(s, &entry{
			mail:        d.entry.mail,
			position:    d.entry.position,
			redelivered: d.entry.redelivered || d.passed,
		})
	}
}

// drop requeues everything that was handed out over the connection b.
func (s *server) drop(b *Broker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.receivers {
		if r.broker == b {
			s.leave(r)
		}
	}
	var lost []*delivery
	for d := range s.held {
		if d.receiver.broker == b {
			lost = append(lost, d)
		}
	}
	slices.SortFunc(lost, func(a, b *delivery) int { return cmp.Compare(a.entry.position, b.entry.position) })
	for _, d := range lost {
		s.giveBack(d)
	}
}
