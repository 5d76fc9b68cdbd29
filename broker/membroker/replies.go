package membroker

import (
	"context"

	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/request"
)

var _ request.ReplyOpener = (*Broker)(nil)

// OpenReplies implements [request.ReplyOpener]. The destination exists until its Subscribe ends.
func (b *Broker) OpenReplies(ctx context.Context) (address string, _ contract.Subscriber, err error) {
	if err := b.Ping(ctx); err != nil {
		return "", nil, err
	}
	address = request.NewAddress()
	r := &replies{broker: b, sub: consumer.Subscription{Group: address, To: address}}
	b.server.declare(r.sub)
	return address, r, nil
}

// replies receives from a reply destination.
type replies struct {
	broker *Broker
	sub    consumer.Subscription
}

// Subscribe implements [contract.Subscriber].
func (r *replies) Subscribe(ctx context.Context, prefetch int, deliver func(contract.Delivery)) error {
	defer r.broker.server.remove(r.sub.To)
	return r.broker.Subscriber(r.sub).Subscribe(ctx, prefetch, deliver)
}

// remove deletes a destination and its messages.
func (s *server) remove(to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.to, to)
}
