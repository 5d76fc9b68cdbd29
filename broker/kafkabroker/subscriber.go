package kafkabroker

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/brokerkit"
	"github.com/waybill-go/waybill/internal/handover"
)

type subscriber struct {
	broker       *Broker
	subscription consumer.Subscription
}

// Subscribe joins the group and receives. It returns an error if the subscription or prefetch is
// wrong, a topic is missing and not to be created, or the cluster refuses the member; and,
// unavailable, if the cluster does not answer at first, and once the broker is closed.
func (s *subscriber) Subscribe(ctx context.Context, prefetch int, deliver func(contract.Delivery)) error {
	return s.subscribe(ctx, prefetch, nil, func(d *delivery) { deliver(d) })
}

// subscribe receives, starting where take says if it is set.
func (s *subscriber) subscribe(ctx context.Context, prefetch int, take takeFunc, deliver func(*delivery)) error {
	memberships, err := membershipsOf(s.broker.cfg.TopicPrefix, s.subscription)
	switch {
	case err != nil:
		return err
	case prefetch < 1:
		return invalidf("prefetch", "is %d; it must be at least 1", prefetch)
	case ctx.Err() != nil:
		return nil
	case !s.broker.begin():
		return waybill.UnavailableError(errClosed)
	}
	defer s.broker.runs.Done()
	if err := s.prepare(ctx, memberships); err != nil || ctx.Err() != nil {
		return brokerkit.Ended(ctx, err)
	}
	r := newRun(s.broker, prefetch, take)
	for _, m := range memberships {
		if err := r.join(m); err != nil {
			r.stop()
			return err
		}
	}
	defer r.stop()
	return r.queue.Serve(ctx, s.broker.done, waybill.UnavailableError(errClosed), deliver)
}

// prepare makes sure that the topics exist.
func (s *subscriber) prepare(ctx context.Context, memberships []membership) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var names []string
	for _, m := range memberships {
		names = append(names, m.topics...)
	}
	return s.broker.topics.need(ctx, names)
}

// need makes sure that topics exist, and returns the error of the first that does not.
func (t *topics) need(ctx context.Context, names []string) error {
	wrong, err := t.look(ctx, names)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := wrong[name]; err != nil {
			return fmt.Errorf("subscribe: %w", err)
		}
	}
	return nil
}

// run is one Subscribe at work. The lock of its queue is taken before its own.
type run struct {
	broker   *Broker
	takes    takeFunc // nil if only Kafka stores offsets
	members  []*member
	prefetch int
	queue    *handover.Queue[*delivery]

	mu       sync.Mutex
	room     chan struct{} // closed and replaced when queue may have room again
	settled  chan struct{} // closed and replaced at each settlement
	stopping bool
}

func newRun(b *Broker, prefetch int, take takeFunc) *run {
	return &run{
		broker: b, takes: take, prefetch: prefetch, queue: handover.New(prefetch, (*delivery).hand),
		room: make(chan struct{}), settled: make(chan struct{}),
	}
}

// due queues a delivery whose delay has passed, unless its partition is gone.
func (r *run) due(d *delivery) {
	r.mu.Lock()
	d.timer = nil
	again := d.state == waiting && !d.partition.leaving
	if again {
		d.state = queued
	}
	r.mu.Unlock()
	if again {
		r.queue.Push(d)
	}
}

// release frees the slot of a delivery that was handed out. The caller holds the lock.
func (r *run) release() {
	r.queue.Free()
	renew(&r.settled)
}

// renew closes a channel that others wait for, and replaces it. The caller holds the lock.
func renew(c *chan struct{}) {
	close(*c)
	*c = make(chan struct{})
}

// full returns a channel that is closed when the queue may have room, nil if it has room now.
func (r *run) full() <-chan struct{} {
	r.mu.Lock()
	room := r.room
	r.mu.Unlock()
	if r.queue.Len() < r.prefetch {
		return nil
	}
	return room
}

// forget removes what is queued of partitions that are leaving.
func (r *run) forget(list []*partition) {
	r.queue.Remove(func(d *delivery) bool { return slices.Contains(list, d.partition) })
	r.mu.Lock()
	defer r.mu.Unlock()
	renew(&r.room)
}

// stop leaves the groups. What was handed out can still be settled.
func (r *run) stop() {
	r.mu.Lock()
	r.stopping = true
	renew(&r.settled)
	r.mu.Unlock()
	var leaving sync.WaitGroup
	for _, m := range r.members {
		leaving.Go(m.leave)
	}
	leaving.Wait()
}
