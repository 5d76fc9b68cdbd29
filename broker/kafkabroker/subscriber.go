package kafkabroker

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
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
	switch err := s.prepare(ctx, memberships); {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	r := newRun(s.broker, prefetch, take)
	for _, m := range memberships {
		if err := r.join(m); err != nil {
			r.stop()
			return err
		}
	}
	defer r.stop()
	return r.serve(ctx, deliver)
}

// prepare makes sure that the topics exist.
func (s *subscriber) prepare(ctx context.Context, memberships []membership) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var names []string
	for _, m := range memberships {
		names = append(names, m.topics...)
	}
	wrong, err := s.broker.topics.look(ctx, names)
	if err != nil {
		return err
	}
	return missingTopic(names, wrong)
}

// missingTopic returns the first error of wrong, in the order of names.
func missingTopic(names []string, wrong map[string]error) error {
	for _, name := range names {
		if err := wrong[name]; err != nil {
			return fmt.Errorf("subscribe: %w", err)
		}
	}
	return nil
}

// run is one Subscribe at work.
type run struct {
	broker  *Broker
	takes   takeFunc // nil if only Kafka stores offsets
	members []*member
	slots   chan struct{} // one value for each delivery that is handed out
	more    chan struct{} // has a value if queue may have grown
	room    chan struct{} // closed and replaced when queue has room again
	failed  chan error    // an error that waiting will not resolve
	settled chan struct{} // closed and replaced at each settlement

	mu       sync.Mutex
	queue    []*delivery // received and not yet handed out, in order
	stopping bool
}

func newRun(b *Broker, prefetch int, take takeFunc) *run {
	return &run{
		broker:  b,
		takes:   take,
		slots:   make(chan struct{}, prefetch),
		more:    make(chan struct{}, 1),
		room:    make(chan struct{}),
		failed:  make(chan error, 1),
		settled: make(chan struct{}),
	}
}

// serve passes deliveries on, one after the other, each when it has a slot.
func (r *run) serve(ctx context.Context, deliver func(*delivery)) error {
	for {
		if ctx.Err() != nil {
			return nil
		}
		var slots chan struct{}
		if r.waiting() {
			slots = r.slots
		}
		select {
		case <-ctx.Done():
		case <-r.broker.done:
			return waybill.UnavailableError(errClosed)
		case err := <-r.failed:
			return err
		case <-r.more:
		case slots <- struct{}{}:
			if d := r.pop(); d != nil {
				deliver(d)
			} else {
				<-r.slots // its partition was revoked
			}
		}
	}
}

func (r *run) waiting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queue) > 0
}

// pop takes the first delivery, for which the caller has a slot.
func (r *run) pop() *delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		return nil
	}
	d := r.queue[0]
	r.queue[0] = nil
	r.queue = r.queue[1:]
	d.state = handed
	if len(r.queue) < cap(r.slots) {
		close(r.room)
		r.room = make(chan struct{})
	}
	return d
}

// push adds to the queue. The caller holds the lock.
func (r *run) push(d *delivery) {
	d.state = queued
	r.queue = append(r.queue, d)
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// due puts a delivery whose delay has passed into the queue, unless its partition is gone.
func (r *run) due(d *delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d.timer = nil
	if d.state == waiting && !d.partition.leaving {
		r.push(d)
	}
}

// release frees the slot of a delivery that was handed out. The caller holds the lock.
func (r *run) release() {
	<-r.slots
	r.wakeDrains()
}

func (r *run) wakeDrains() {
	close(r.settled)
	r.settled = make(chan struct{})
}

// full returns a channel that is closed when the queue has room, nil if it has room now.
func (r *run) full() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) < cap(r.slots) {
		return nil
	}
	return r.room
}

// drop hands out no more of a partition. The caller holds the lock.
func (r *run) drop(p *partition) {
	p.retire()
	r.queue = slices.DeleteFunc(r.queue, func(d *delivery) bool { return d.partition == p })
}

// fail ends the run with an error that waiting will not resolve.
func (r *run) fail(err error) {
	select {
	case r.failed <- err:
	default:
	}
}

// stop leaves the groups. What was handed out can still be settled.
func (r *run) stop() {
	r.mu.Lock()
	r.stopping = true
	r.wakeDrains()
	r.mu.Unlock()
	var leaving sync.WaitGroup
	for _, m := range r.members {
		leaving.Go(m.leave)
	}
	leaving.Wait()
}
