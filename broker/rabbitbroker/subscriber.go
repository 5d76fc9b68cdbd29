package rabbitbroker

import (
	"context"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/backoff"
	"github.com/waybill-go/waybill/internal/loop"
)

var (
	_ contract.Subscriber   = (*subscriber)(nil)
	_ contract.SingleActive = (*subscriber)(nil)
)

const maxPrefetch = 65535 // AMQP has 16 bits for it

// reconnect says how long to wait before the next attempt to connect.
var reconnect = waybill.RetryPolicy{BaseDelay: 100 * time.Millisecond, MaxDelay: 15 * time.Second}

// subscriber receives from the queues of one subscription.
type subscriber struct {
	broker *Broker
	sub    consumer.Subscription
	last   *session // of the previous Subscribe, nil if there was none
}

// SingleActive implements [contract.SingleActive].
func (s *subscriber) SingleActive() bool { return s.broker.cfg.SingleActiveConsumer }

// Subscribe implements [contract.Subscriber]. It returns an error if the first connection
// cannot be made, if the server refuses the topology permanently, for example a queue that
// exists with other arguments, or if the broker is closed; a connection that is lost later
// is retried until it is re-established.
func (s *subscriber) Subscribe(ctx context.Context, prefetch int, deliver func(contract.Delivery)) error {
	if err := s.validate(prefetch); err != nil {
		return err
	}
	connected, failures := false, 0
	for {
		started := time.Now()
		ses, err := s.session(ctx, prefetch)
		if err == nil {
			connected = true
			err = ses.receive(ctx, deliver)
			ses.stop()
			if err == nil {
				s.last = ses
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case !connected, waybill.IsPermanent(err), s.broker.isClosed():
			return err
		case time.Since(started) > reconnect.MaxDelay:
			failures = 0
		}
		failures++
		loop.Sleep(ctx, backoff.Delay(reconnect, failures))
	}
}

func (s *subscriber) validate(prefetch int) error {
	if prefetch < 1 || prefetch > maxPrefetch {
		return invalid("prefetch", "is %d, the range is 1 to %d", prefetch, maxPrefetch)
	}
	if err := s.sub.Validate(); err != nil {
		return err
	}
	if err := validName("Subscription.Group", s.sub.Group); err != nil {
		return err
	}
	if err := validName("Subscription.To", s.sub.To); err != nil {
		return err
	}
	if dead := s.broker.cfg.DeadLetterExchange; dead != "" && slices.Contains(s.broker.topology.queues(s.sub), dead) {
		return invalid("Subscription", "receives from queue %q, which is for the dead letters of others: Config.DeadLetterExchange", dead)
	}
	return nil
}

// session returns that of the previous Subscribe if it is paused, else a new one.
func (s *subscriber) session(ctx context.Context, prefetch int) (*session, error) {
	last := s.last
	s.last = nil
	if last != nil && cap(last.slots) == prefetch && last.resume() {
		return last, nil
	}
	return s.open(ctx, prefetch)
}

// open connects, declares what s receives from, and starts to receive. The error is
// permanent if something of that name exists with other arguments, else unavailable.
func (s *subscriber) open(ctx context.Context, prefetch int) (*session, error) {
	c, err := s.broker.consumers.get(ctx)
	if err != nil {
		return nil, err
	}
	ses := newSession(s.broker, c, prefetch)
	if err = c.call(func() error { return ses.consume(s.sub) }); err == nil {
		return ses, nil
	}
	ses.end()
	return nil, s.refusal(err)
}

// refusal classifies an error of declaring or consuming; nil stays nil.
func (s *subscriber) refusal(err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("subscribe %s at %s: %w", s.sub.Group, s.broker.address, err)
	if refusedWith(err, amqp.PreconditionFailed) != nil {
		return waybill.PermanentError(waybill.ReasonRejected, err)
	}
	return waybill.UnavailableError(err)
}
