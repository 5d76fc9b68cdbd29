package httpbroker

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

// queue is where requests wait for a subscriber of one group.
//
//	request ─ pass ─▶ offers ─▶ Subscribe ─▶ deliver ─▶ Ack or Retry ─▶ answer
type queue struct {
	receiver     *Receiver
	name         string
	subscription consumer.Subscription
	offers       chan *delivery
	deserted     chan struct{} // closed when nobody subscribes any longer
	members      int           // subscribers that run; the receiver's lock guards it
}

func newQueue(r *Receiver, name string, s consumer.Subscription) *queue {
	return &queue{receiver: r, name: name, subscription: s, offers: make(chan *delivery), deserted: make(chan struct{})}
}

// pass hands a message to a subscriber and returns its answer.
func (q *queue) pass(ctx context.Context, w webhook) answer {
	d := newDelivery(ctx, q.receiver, w)
	select {
	case q.offers <- d:
	case <-ctx.Done():
		return away
	case <-q.deserted:
		return away
	case <-q.receiver.closed:
		return away
	}
	<-d.handed
	return q.await(ctx, d)
}

// await waits for the settlement of a delivery, after the end of its subscription only for a
// while: the consumer may have abandoned it.
func (q *queue) await(ctx context.Context, d *delivery) answer {
	select {
	case a := <-d.settled:
		return a
	case <-ctx.Done():
		return away
	case <-q.receiver.closed:
		return away
	case <-d.ended:
	}
	grace := time.NewTimer(q.receiver.cfg.SettleGrace)
	defer grace.Stop()
	select {
	case a := <-d.settled:
		return a
	case <-ctx.Done():
	case <-q.receiver.closed:
	case <-grace.C:
	}
	return away
}

// subscriber receives for one group.
type subscriber struct {
	receiver     *Receiver
	subscription consumer.Subscription
}

var (
	_ contract.Subscriber  = (*subscriber)(nil)
	_ contract.Redeliverer = (*subscriber)(nil)
	_ contract.Delivery    = (*delivery)(nil)
)

// Subscriber returns a receiver for the group named by s. Requests do not wait for a subscriber:
// while none of the group runs, they are answered with 503. Its Subscribe reports an invalid s.
func (r *Receiver) Subscriber(s consumer.Subscription) contract.Subscriber {
	return &subscriber{r, s}
}

// Redelivery implements [contract.Redeliverer].
func (s *subscriber) Redelivery() contract.Redelivery { return contract.Redelivery{Unbounded: true} }

// Subscribe implements [contract.Subscriber].
func (s *subscriber) Subscribe(ctx context.Context, prefetch int, deliver func(contract.Delivery)) error {
	if err := s.subscription.Validate(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	if s.receiver.ended() {
		return waybill.UnavailableError(errClosed)
	}
	q := s.receiver.join(s.subscription)
	defer s.receiver.leave(q)
	ended := make(chan struct{})
	defer close(ended)
	places := make(chan struct{}, prefetch)
	for {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return nil
		case <-s.receiver.closed:
			return waybill.UnavailableError(errClosed)
		}
		select {
		case d := <-q.offers:
			d.hand(places, ended)
			if ctx.Err() != nil {
				d.refuse()
				return nil
			}
			deliver(d)
		case <-ctx.Done():
			return nil
		case <-s.receiver.closed:
			return waybill.UnavailableError(errClosed)
		}
	}
}
