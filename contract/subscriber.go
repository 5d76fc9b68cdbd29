package contract

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
)

// Subscriber receives messages for one consumer group. Brokers implement it.
type Subscriber interface {
	// Subscribe receives messages and passes each to deliver, in the broker's order, until
	// ctx is done; it then stops receiving and returns nil. At most prefetch deliveries are
	// unsettled at any time. deliver may block, which delays further deliveries. Lost connections are
	// re-established with a growing delay; an error is returned only for what does not pass by waiting,
	// or if the connection could not be made. What was delivered and not settled when Subscribe returns
	// is redelivered by the broker; settling it still works for as long as the connection does. At most
	// one Subscribe of a Subscriber runs at a time.
	Subscribe(ctx context.Context, prefetch int, deliver func(Delivery)) error
}

// Delivery is one delivered message that is not yet settled. Exactly one of Ack and Retry must be
// called, from any goroutine.
type Delivery interface {
	// Message returns the decoded message. If the envelope can't be decoded the error says
	// why and the message holds what could be read, the payload at least. An inbound message
	// without an id is decoded with an empty ID and no error.
	Message() (*waybill.Message, error)

	// Redelivered reports whether the broker may have delivered the message before.
	Redelivered() bool

	// Ack acknowledges the message. It is called after the commit.
	Ack(ctx context.Context) error

	// Retry requests a redelivery to this consumer group only, not before delay has passed.
	Retry(ctx context.Context, delay time.Duration) error

	// Extend keeps the broker from redelivering the message while it is still being handled. It
	// is called at least every [ExtendInterval]. A broker without such a limit does nothing.
	Extend(ctx context.Context) error
}

// Returner is a [Delivery] that can be requeued in a better way than by a Retry without delay if
// the handler was not called.
type Returner interface {
	// Return requeues the message in its original place, for any consumer of the group. It settles the
	// delivery, as Ack and Retry do.
	Return(ctx context.Context) error
}

// SingleActive is a [Subscriber] whose broker may deliver to only one member of the group at a time, to keep
// the order, and to another one when a subscription ends, whatever the first has not settled.
type SingleActive interface {
	// SingleActive reports whether the broker does. A consumer then keeps a subscription that is full of deliveries
	// of blocked keys, where it would otherwise begin a larger one.
	SingleActive() bool
}

// ExtendInterval is how often a consumer calls [Delivery.Extend] on a message that it
// holds. A broker adapter must not let a delivery lapse within three of them.
const ExtendInterval = 5 * time.Second
