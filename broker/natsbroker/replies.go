package natsbroker

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/request"
)

var _ request.ReplyOpener = (*Broker)(nil)

// OpenReplies implements [request.ReplyOpener]. The destination is a durable consumer that the
// server deletes when nobody has received from it for [request.Expiry]. Replies lie in the stream,
// not only in an inbox subject: so they outlast a lost connection. What the stream holds of them
// is purged when the client ends; what one leaves that has died goes after MaxAge.
func (b *Broker) OpenReplies(ctx context.Context) (address string, _ consumer.Subscriber, err error) {
	if err := b.connected(); err != nil {
		return "", nil, err
	}
	address = request.NewAddress()
	sub := consumer.Subscription{Group: address, To: address}
	durables, err := durablesOf(b.cfg.SubjectPrefix, sub)
	if err != nil {
		return "", nil, err
	}
	if err := b.declare(ctx, durables[0]); err != nil {
		return "", nil, err
	}
	return address, replies{&subscriber{broker: b, subscription: sub}, durables[0]}, nil
}

// replies receives from a reply destination.
type replies struct {
	*subscriber
	durable durable
}

// Subscribe implements [consumer.Subscriber].
func (r replies) Subscribe(ctx context.Context, prefetch int, deliver func(consumer.Delivery)) error {
	err := r.subscriber.Subscribe(ctx, prefetch, deliver)
	if ctx.Err() != nil {
		r.remove(context.WithoutCancel(ctx))
	}
	return err
}

// remove deletes the consumer and its messages. What fails goes by itself, later.
func (r replies) remove(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	_ = r.broker.js.DeleteConsumer(ctx, r.broker.cfg.Stream, r.durable.name)
	if stream, err := r.broker.js.Stream(ctx, r.broker.cfg.Stream); err == nil {
		_ = stream.Purge(ctx, jetstream.WithPurgeSubject(r.durable.subject))
	}
}
