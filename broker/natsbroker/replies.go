package natsbroker

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/request"
)

var _ request.ReplyOpener = (*Broker)(nil)

// OpenReplies implements [request.ReplyOpener]. The destination is a durable consumer that the
// server deletes when nobody has received from it for [request.Expiry]. Replies are stored in the
// stream, not only sent to an inbox subject, so that they survive a lost connection. The stream's
// replies are purged when the client ends; those of a client that has died expire after MaxAge.
func (b *Broker) OpenReplies(ctx context.Context) (address string, _ contract.Subscriber, err error) {
	if err := b.prepare(ctx); err != nil {
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
	remove := func(ctx context.Context) { b.removeReplies(ctx, durables[0]) }
	return address, request.RemovedAfter(&subscriber{broker: b, subscription: sub}, remove), nil
}

// removeReplies deletes a consumer and its messages. What it fails to delete expires later.
func (b *Broker) removeReplies(ctx context.Context, d durable) {
	_ = b.js.DeleteConsumer(ctx, b.cfg.Stream, d.name)
	if stream, err := b.js.Stream(ctx, b.cfg.Stream); err == nil {
		_ = stream.Purge(ctx, jetstream.WithPurgeSubject(d.subject))
	}
}
