package service

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/relay"
)

// Local adds a consumer inside this process: h handles the messages that match, or all if
// match is nil, after they were published. It is a consumer like those of [Service.Consume],
// under the given name, which is its identity in the inbox and may not change while messages
// wait for it: a failing handler is retried, and its message becomes a dead letter of this
// consumer; it is never published again for that. The store keeps a row for each message and
// consumer until it is handled, written in the statement that marks the message as published, so a
// crash loses none. In rows, logs and the view "messages" its destination is "local:" and the name.
//
// With several replicas the one that has published a message handles it; replicas should therefore
// have the same local consumers. The order per key is that of publishing; a failing handler lets
// later messages of the key overtake unless cfg.Order is [consumer.OrderByKey]. Local must be
// called before Run, and requires the relay.
func (s *Service[Tx]) Local(name string, match func(*waybill.Message) bool, h consumer.Handler[Tx], cfg consumer.Config) error {
	if name == "" {
		return &waybill.InvalidError{Field: "name", Reason: "is required"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.relay == nil {
		return &waybill.InvalidError{Field: "service.Config.DisableRelay", Reason: "is set; a local consumer is fed by the relay"}
	}
	l := newLocal()
	if err := s.addConsumer(name, func() (part, error) {
		return consumer.New(l, consumer.Subscription{Group: name, To: name}, s.store, h, s.consumerConfig(cfg))
	}); err != nil {
		return err
	}
	withFollower := s.cfg.Relay
	withFollower.Followers = append(slices.Clone(withFollower.Followers),
		relay.Destination{Name: localPrefix + name, Publisher: l, Match: match})
	if err := s.setRelay(withFollower); err != nil {
		last := len(s.consumers) - 1
		s.consumers, s.names = s.consumers[:last], s.names[:last]
		return err
	}
	return nil
}

// localPrefix is the prefix of the name of a local consumer in the name of its destination.
const localPrefix = "local:"

const (
	// localPatience is how long a batch of the relay waits for local handlers. Its lanes are blocked in
	// the meantime; a handler that takes longer continues without the batch.
	localPatience = 200 * time.Millisecond

	// localRecheck is how long the row of a message that was not handled within
	// localPatience waits before the relay asks again.
	localRecheck = time.Second

	// localMemory is how long an outcome is kept until the relay asks for it. After that the outcome
	// has to be read from the inbox.
	localMemory = 10 * localRecheck
)

var (
	errNobodyListens = errors.New("service: the local consumer is not running")
	errNotYet        = errors.New("service: the local consumer has not handled the message yet")
	errToBeRetried   = errors.New("service: the local handler failed and is to be tried again")
)

// local is both ends of an in-process subscription: the relay publishes to it, and a
// consumer subscribes to it.
//
//	Send ─▶ waiting ─▶ deliver ─▶ Ack: published · Retry: row waits
//	  └ no subscription: pause  └ no answer in time: row waits, handler continues
type local struct {
	mu        sync.Mutex
	listening bool
	flights   map[flightKey]*flight // unsettled, or settled and not yet read by the relay
	waiting   []*flight             // not delivered, in the order of Send
	arrived   chan struct{}         // has a value if waiting is not empty
}

var (
	_ contract.Publisher  = (*local)(nil)
	_ consumer.Broker     = (*local)(nil)
	_ contract.Subscriber = (*local)(nil)
	_ contract.Delivery   = (*flight)(nil)
)

// flightKey identifies a message in the store.
type flightKey struct{ source, id string }

// flight is one message in flight from the relay to the consumer. The lock of its local guards all
// fields that change.
type flight struct {
	local     *local
	key       flightKey
	message   waybill.Message
	place     chan struct{} // has a value while this flight counts towards prefetch; nil before
	done      chan struct{} // closed when settled
	settledAt time.Time
	result    error
}

func newLocal() *local {
	return &local{flights: make(map[flightKey]*flight), arrived: make(chan struct{}, 1)}
}

// Send implements [contract.Publisher].
func (l *local) Send(ctx context.Context, msgs []contract.Outgoing) (wait func() []error) {
	ctx, cancel := context.WithTimeout(ctx, localPatience)
	flights, ok := l.board(msgs)
	return func() []error {
		defer cancel()
		results := make([]error, len(msgs))
		for i := range msgs {
			if !ok {
				results[i] = waybill.UnavailableError(errNobodyListens)
				continue
			}
			results[i] = l.outcome(ctx, flights[i])
		}
		return results
	}
}

// board returns a flight for each message, the current one if there is one, and false if there is
// no subscription.
func (l *local) board(msgs []contract.Outgoing) ([]*flight, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.listening {
		return nil, false
	}
	l.forget()
	flights := make([]*flight, len(msgs))
	for i, m := range msgs {
		key := flightKey{m.Source, m.ID}
		f := l.flights[key]
		if f == nil {
			f = &flight{local: l, key: key, message: m.Clone(), done: make(chan struct{})}
			f.message.Payload = bytes.Clone(m.Payload) // the relay's must not be retained
			l.flights[key] = f
			l.waiting = append(l.waiting, f)
		}
		flights[i] = f
	}
	l.signal()
	return flights, true
}

// forget drops outcomes that the relay has not asked for in time. The lock is held.
func (l *local) forget() {
	for key, f := range l.flights {
		if f.settled() && time.Since(f.settledAt) > localMemory {
			delete(l.flights, key)
		}
	}
}

// outcome waits for a flight to be settled until ctx ends. One that is not delivered by then is
// cancelled, so that no more are kept than the relay and the consumer hold.
func (l *local) outcome(ctx context.Context, f *flight) error {
	select {
	case <-f.done:
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.settled() {
		l.drop(f)
		return f.result
	}
	if i := slices.Index(l.waiting, f); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		l.drop(f)
	}
	return waybill.RetryAfter(localRecheck, errNotYet)
}

// drop removes a flight. The lock is held.
func (l *local) drop(f *flight) {
	if l.flights[f.key] == f {
		delete(l.flights, f.key)
	}
}

// signal wakes the consumer's side. The lock is held.
func (l *local) signal() {
	if len(l.waiting) == 0 {
		return
	}
	select {
	case l.arrived <- struct{}{}:
	default:
	}
}

// Subscriber implements [consumer.Broker]. There is one consumer, which receives all.
func (l *local) Subscriber(consumer.Subscription) contract.Subscriber { return l }

// Subscribe implements [contract.Subscriber].
func (l *local) Subscribe(ctx context.Context, prefetch int, deliver func(contract.Delivery)) error {
	l.listen()
	defer l.leave()
	places := make(chan struct{}, prefetch)
	for {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		f := l.next(ctx, places)
		if f == nil {
			return nil
		}
		deliver(f)
	}
}

// listen starts afresh: what an earlier subscription has left unsettled is not waited for.
func (l *local) listen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listening = true
	clear(l.flights)
	l.waiting = nil
}

func (l *local) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listening = false
}

// next waits for a flight and assigns it the prefetch slot that was reserved for it. It returns nil
// when ctx ends.
func (l *local) next(ctx context.Context, place chan struct{}) *flight {
	for {
		if f := l.take(place); f != nil {
			return f
		}
		select {
		case <-l.arrived:
		case <-ctx.Done():
			return nil
		}
	}
}

func (l *local) take(place chan struct{}) *flight {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		return nil
	}
	f := l.waiting[0]
	l.waiting = l.waiting[1:]
	f.place = place
	l.signal()
	return f
}

// settled reports whether the consumer has answered. The lock is held.
func (f *flight) settled() bool { return !f.settledAt.IsZero() }

func (f *flight) settle(result error) error {
	f.local.mu.Lock()
	defer f.local.mu.Unlock()
	if f.settled() {
		return errors.New("service: delivery was settled before")
	}
	f.settledAt, f.result = time.Now(), result
	close(f.done)
	<-f.place
	return nil
}

// Message implements [contract.Delivery].
func (f *flight) Message() (*waybill.Message, error) {
	m := f.message.Clone()
	return &m, nil
}

// Redelivered implements [contract.Delivery]. The row of a message does not show whether it was
// delivered before, perhaps in another process, so it may have been.
func (f *flight) Redelivered() bool { return true }

// Ack implements [contract.Delivery]: the row is published.
func (f *flight) Ack(context.Context) error { return f.settle(nil) }

// Retry implements [contract.Delivery]: the row waits, its attempts unchanged, because the
// consumer counts its own.
func (f *flight) Retry(_ context.Context, delay time.Duration) error {
	return f.settle(waybill.RetryAfter(delay, errToBeRetried))
}

// Extend implements [contract.Delivery]. There is no limit to extend.
func (f *flight) Extend(context.Context) error { return nil }
