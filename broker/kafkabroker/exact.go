package kafkabroker

import (
	"context"
	"slices"

	"github.com/waybill-go/waybill/contract"
)

// exactPublisher publishes messages from an outbox in transactions, and others without.
type exactPublisher struct {
	outbox *outbox
	plain  publisher
}

// Send implements [contract.Publisher]. It asks the cluster about topics that it has not seen within
// a minute.
func (p exactPublisher) Send(ctx context.Context, msgs []contract.Outgoing) (wait func() []error) {
	if slices.ContainsFunc(msgs, func(m contract.Outgoing) bool { return m.Row.Position == 0 }) {
		return p.plain.Send(ctx, msgs)
	}
	b := newBatch(msgs)
	if err := ctx.Err(); err != nil {
		b.ResolveAll(unconfirmed(err))
	} else if records, err := p.outbox.topics.encode(ctx, b); err != nil {
		b.ResolveAll(err)
	} else {
		p.outbox.send(ctx, b, records)
	}
	return func() []error { return b.Wait(ctx, func() error { return unconfirmed(ctx.Err()) }) }
}
