package redisbroker

import (
	"context"

	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/request"
)

var _ request.ReplyOpener = (*Broker)(nil)

// OpenReplies implements [request.ReplyOpener]. The destination is a stream that expires when
// nobody has received from it for [request.Expiry].
func (b *Broker) OpenReplies(ctx context.Context) (address string, _ contract.Subscriber, err error) {
	if err := b.ready(ctx); err != nil {
		return "", nil, err
	}
	address = request.NewAddress()
	sub := consumer.Subscription{Group: address, To: address}
	sources, err := sourcesOf(b.cfg.Prefix, sub)
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	if err := b.declare(ctx, sources[0]); err != nil {
		return "", nil, err
	}
	remove := func(ctx context.Context) { _ = b.client.Del(ctx, sources[0].keys()...).Err() } // else the stream expires
	return address, request.RemovedAfter(&subscriber{broker: b, subscription: sub}, remove), nil
}

// replies reports whether s is a reply destination.
func (s source) replies() bool { return request.IsAddress(s.to) }

// prolong extends the expiry of a reply destination.
func (b *Broker) prolong(ctx context.Context, s source) error {
	return classify("prolong a reply destination", b.client.PExpire(ctx, s.stream, request.Expiry).Err())
}
