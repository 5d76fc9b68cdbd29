package asbbroker

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/request"
)

var _ request.ReplyOpener = (*Broker)(nil)

// replyIdle is how long a reply queue outlives its client: the shortest time that the service
// accepts, which is longer than [request.Expiry].
const replyIdle = 5 * time.Minute

// OpenReplies implements [request.ReplyOpener]. The destination is a queue that the service deletes
// when nobody has received from it for 5 minutes, the shortest time that it accepts. It is created
// even with [Config.DeclareNothing], so the key needs the right to manage; without it the error is
// permanent.
func (b *Broker) OpenReplies(ctx context.Context) (address string, _ contract.Subscriber, err error) {
	address = request.NewAddress()
	sub := consumer.Subscription{Group: address, To: address}
	if err := b.names.valid(sub); err != nil {
		return "", nil, err // its prefix is too long
	}
	within, cancel := b.within(ctx)
	defer cancel()
	switch err := b.ensure(within, sub); {
	case b.closed():
		return "", nil, waybill.UnavailableError(errClosed)
	case errors.Is(err, errNoRight):
		return "", nil, waybill.PermanentError(waybill.ReasonRejected, err)
	case err != nil:
		return "", nil, err
	}
	return address, request.RemovedAfter(&subscriber{broker: b, sub: sub}, func(ctx context.Context) {
		_, _ = b.topology.admin.DeleteQueue(ctx, b.names.queue(address), nil) // else the service deletes it
	}), nil
}

// declares reports whether what sub receives from is created here: always if it is a reply queue,
// which nobody else knows.
func (b *Broker) declares(sub consumer.Subscription) bool {
	return !b.cfg.DeclareNothing || request.IsAddress(sub.To)
}

// waiting returns the queue in which messages of sub wait for their next attempt. Replies wait in
// their own.
func (n names) waiting(sub consumer.Subscription) string {
	if request.IsAddress(sub.To) {
		return n.queue(sub.To)
	}
	return n.retry(sub.Group)
}
