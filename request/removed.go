package request

import (
	"context"
	"time"

	"github.com/waybill-go/waybill/contract"
)

// removeTimeout bounds how long it may take to remove a reply destination.
const removeTimeout = 2 * time.Second

// RemovedAfter returns a subscriber that receives from sub and calls remove when the context of
// Subscribe has ended, with a context of 2 seconds. It is for brokers whose reply destination is
// removed when its client ends; one that could not be removed must expire by itself.
func RemovedAfter(sub contract.Subscriber, remove func(ctx context.Context)) contract.Subscriber {
	return &removed{sub, remove}
}

type removed struct {
	contract.Subscriber
	remove func(ctx context.Context)
}

// Subscribe implements [contract.Subscriber].
func (r *removed) Subscribe(ctx context.Context, prefetch int, deliver func(contract.Delivery)) error {
	err := r.Subscriber.Subscribe(ctx, prefetch, deliver)
	if ctx.Err() != nil {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
		defer cancel()
		r.remove(ending)
	}
	return err
}
