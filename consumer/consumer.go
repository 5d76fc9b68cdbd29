package consumer

import (
	"context"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
)

// Consumer takes deliveries from a subscriber and handles each message once.
type Consumer[Tx any] struct {
	*receiver
	box     contract.Inbox[Tx]
	handler Handler[Tx]

	batcher      contract.Batcher[Tx] // nil without batches
	batchHandler BatchHandler[Tx]     // nil for a handler of single messages
	waiting      *lines               // for a batch; nil without batches
}

// New returns a consumer that receives what s selects from b, records it in box and handles it with h. The
// error is an [*waybill.InvalidError] that names what is missing or wrong.
func New[Tx any](b Broker, s Subscription, box contract.Inbox[Tx], h Handler[Tx], cfg Config) (*Consumer[Tx], error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	switch {
	case b == nil:
		return nil, &waybill.InvalidError{Field: "b", Reason: "a broker is required"}
	case box == nil:
		return nil, &waybill.InvalidError{Field: "box", Reason: "an inbox is required"}
	case h == nil:
		return nil, &waybill.InvalidError{Field: "h", Reason: "a handler is required"}
	}
	r, err := newReceiver(b, s, cfg)
	if err != nil {
		return nil, err
	}
	if err := r.keepOffsets(box); err != nil {
		return nil, err
	}
	c := &Consumer[Tx]{receiver: r, box: timedInbox[Tx]{box, r}, handler: h}
	if c.batcher, err = batcherOf(box, &r.cfg); err != nil {
		return nil, err
	}
	if c.batcher != nil {
		r.lineUp, c.waiting = c.lineUp, newLines()
	}
	r.buryLetter, r.try = c.box.BuryMessage, c.tryMessage
	r.requeues = newRequeuer(r, box, h)
	r.ping = func(ctx context.Context) error {
		_, err := box.FailedAttempts(ctx, inbox.Key{Tenant: waybill.DefaultTenant, Consumer: r.name})
		return err
	}
	return c, nil
}
