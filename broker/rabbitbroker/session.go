package rabbitbroker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/handover"
)

// session is one channel that receives. It outlives its Subscribe until everything that it has delivered is
// settled, so that running handlers can settle.
type session struct {
	broker  *Broker
	conn    *conn
	channel *amqp.Channel
	closed  <-chan *amqp.Error
	sources []source // one or two

	slots chan struct{} // one value for each unsettled delivery; guarded by mu for removal
	freed chan struct{} // has a value if slots may have been freed
	back  chan struct{} // has a value if kept may have grown

	mu    sync.Mutex
	state state
	kept  []*delivery       // taken from a source and not delivered, or given back
	types map[string]string // of each queue, and then of the latest of its retry queues
}

// state is the state of a session.
type state int

const (
	receiving state = iota // messages that are given back stay with the session, which delivers them again or returns them at its end, in order
	paused                 // the same, but nothing is delivered; the session ends when all is settled
	cancelled              // the server sends no more, and messages that are given back return to it; the session ends when all is settled
	ending
)

// source is one queue that is received from.
type source struct {
	queue      string
	deliveries <-chan amqp.Delivery
}

func newSession(b *Broker, c *conn, prefetch int) *session {
	return &session{
		broker: b, conn: c,
		slots: make(chan struct{}, prefetch), freed: make(chan struct{}, 1), back: make(chan struct{}, 1),
		types: make(map[string]string),
	}
}

// declare declares what a consumer of sub needs.
func (s *session) declare(sub consumer.Subscription) error {
	d := &declarer{conn: s.conn}
	defer d.close()
	queues, err := d.declare(s.broker.parts(s.broker.current().subscription(sub)))
	for name, args := range queues {
		s.noteType(name, args)
	}
	s.broker.tell(queues)
	return err
}

// noteType records the type of a queue, or of one of its retry queues.
func (s *session) noteType(queue string, args amqp.Table) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.types[queue], _ = args[amqp.QueueTypeArg].(string)
}

// retryType is the type that a retry queue of queue is likely to have; "" if nothing is known.
func (s *session) retryType(queue string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.types[queue]
}

// consume declares the topology of sub and starts to receive.
func (s *session) consume(sub consumer.Subscription) (err error) {
	if err = s.declare(sub); err != nil {
		return err
	}
	if s.channel, err = s.conn.Channel(); err != nil {
		return err
	}
	s.closed = s.channel.NotifyClose(make(chan *amqp.Error, 1))
	if err = s.channel.Qos(cap(s.slots), 0, false); err != nil {
		return err
	}
	for _, queue := range s.broker.topology.queues(sub) {
		deliveries, err := s.channel.Consume(queue, queue, false, false, false, false, nil)
		if err != nil {
			return err
		}
		s.sources = append(s.sources, source{queue, deliveries})
	}
	return nil
}

// receive passes on what arrives until ctx is done, which returns nil, or until the server has ended it.
func (s *session) receive(ctx context.Context, deliver func(contract.Delivery)) error {
	for {
		select { // the server counts unsettled deliveries per queue, this counts both
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		case cause := <-s.closed:
			return s.conn.lost(errorOrNil(cause))
		}
		d, err := s.next(ctx)
		if d == nil {
			<-s.slots
			return err
		}
		if left := d.left(); left > 0 {
			if err := d.wait(ctx, left); err != nil {
				_ = d.Return(ctx)
				return err
			}
			continue
		}
		deliver(d)
	}
}

// next returns the next delivery, or nil if ctx is done or the server has ended the session.
func (s *session) next(ctx context.Context) (*delivery, error) {
	first, second := s.sources[0], source{}
	if len(s.sources) == 2 {
		second = s.sources[1]
	}
	for ctx.Err() == nil {
		if d := s.takeKept(); d != nil {
			return d, nil
		}
		d := &delivery{session: s}
		var ok bool
		select {
		case d.amqp, ok = <-first.deliveries:
			d.queue = first.queue
		case d.amqp, ok = <-second.deliveries:
			d.queue = second.queue
		case <-s.back:
			continue
		case <-ctx.Done():
			return nil, nil
		}
		if !ok {
			return nil, s.ended()
		}
		if ctx.Err() == nil {
			return d, nil
		}
		s.keep(d)
	}
	return nil, nil
}

// keep keeps a delivery that is not settled until it is delivered or given back. It reports whether the session
// still keeps deliveries.
func (s *session) keep(d *delivery) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state >= cancelled {
		return false
	}
	at, _ := slices.BinarySearchFunc(s.kept, d, func(a, b *delivery) int { return cmp.Compare(a.amqp.DeliveryTag, b.amqp.DeliveryTag) })
	s.kept = slices.Insert(s.kept, at, d)
	handover.Signal(s.back)
	return true
}

// takeKept returns the first delivery that is kept, nil if there is none.
func (s *session) takeKept() *delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) == 0 {
		return nil
	}
	d := s.kept[0]
	s.kept = s.kept[1:]
	return d
}

var errCancelled = errors.New("RabbitMQ ended the subscription; was the queue deleted?")

func (s *session) ended() error {
	if s.channel.IsClosed() {
		return s.conn.lost(errorOrNil(<-s.closed))
	}
	return waybill.UnavailableError(errCancelled)
}

// stopGrace is how long a stop waits for running handlers.
const stopGrace = time.Second

// stop requeues messages that have arrived and were not delivered. If everything that was delivered is settled
// soon, the channel is closed: so all messages are requeued in one step and in order, including those in
// flight. A quorum queue would put those before the ones that have arrived if the subscription were cancelled
// first. Otherwise the channel stays open for as long as something is unsettled; if the queue has a single
// active consumer the subscription stays as well, because the next one would get messages from behind the
// unsettled ones.
func (s *session) stop() {
	settled := s.settledWithin(stopGrace)
	if !settled && !s.singleActive() {
		s.giveBack()
	}
	switch idle := s.pause(); {
	case idle && settled:
		s.giveBackInOrder()
	case idle, s.channel.IsClosed():
		s.end()
	}
}

func (s *session) singleActive() bool { return s.broker.cfg.SingleActiveConsumer }

// pause ends delivering. It reports whether everything that was delivered is settled, so that the session ends.
func (s *session) pause() (idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	idle = len(s.slots) == 0
	switch {
	case idle:
		s.state = ending
	case s.state == receiving:
		s.state = paused
	}
	return idle
}

// resume makes a paused session receive again, and reports whether it was paused.
func (s *session) resume() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != paused || s.channel.IsClosed() {
		return false
	}
	s.state = receiving
	return true
}

// settledWithin waits until everything that was delivered is settled, or the channel is closed.
func (s *session) settledWithin(d time.Duration) bool {
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	for len(s.slots) > 0 && !s.channel.IsClosed() {
		select {
		case <-s.freed:
		case <-timeout.C:
			return false
		}
	}
	return true
}

// giveBack tells the server to deliver no more and requeues what was not delivered.
func (s *session) giveBack() {
	for _, src := range s.sources {
		_ = s.conn.call(func() error { return s.channel.Cancel(src.queue, false) }) // if it fails the server requeues as well
	}
	s.mu.Lock()
	s.state = cancelled
	list := s.kept
	s.kept = nil
	s.mu.Unlock()
	for _, d := range list {
		_ = d.amqp.Nack(false, true)
	}
	for _, src := range s.sources {
		for d := range src.deliveries {
			_ = d.Nack(false, true)
		}
	}
}

// release records that a delivery is settled.
func (s *session) release() {
	s.mu.Lock()
	<-s.slots
	last := s.state > receiving && s.state < ending && len(s.slots) == 0
	if last {
		s.state = ending
	}
	s.mu.Unlock()
	handover.Signal(s.freed)
	if last {
		s.end()
	}
}

// end closes the channel, after which unsettled deliveries on it are redelivered.
func (s *session) end() {
	if s.channel != nil {
		_ = s.conn.call(s.channel.Close) // closed in any case
	}
}
