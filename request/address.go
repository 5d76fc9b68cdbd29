package request

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/report"
)

// AddressHeader is the header of a request that says where its reply is to be sent.
const AddressHeader = "waybill-reply-to"

// Expiry is the least time for which a reply destination, and what was sent to it, outlives its
// client where the broker removes it: longer than it takes to reconnect.
const Expiry = 2 * time.Minute

// Broker publishes requests and replies. Every broker adapter implements it. A [Client] also needs
// [ReplyOpener].
type Broker interface {
	// Publisher returns the publishing side.
	Publisher() contract.Publisher
}

// ReplyOpener is a broker that can receive replies. RabbitMQ, NATS, Kafka, Redis, Service Bus and the
// broker in memory can.
//
// To implement it:
//
//  1. Take the address from [NewAddress]. It is a destination like any other that messages are
//     sent To, except for what follows.
//  2. Have the broker remove it, or what was sent to it, when nothing was received from it for [Expiry].
//  3. Publish to an address that does not exist as if it did: report success. The client
//     is gone, and the reply is of no use. [IsAddress] recognises such addresses.
//  4. Run the tests of brokertest: [brokertest.Features].NoReplies must not be set.
type ReplyOpener interface {
	// OpenReplies creates a reply destination. What is sent to address from then on arrives at replies. When a
	// Subscribe of replies ends because its context has, the destination is removed, or no longer received from;
	// while one runs, a destination that the broker has lost is recreated. The error
	// is unavailable if the broker does not answer.
	OpenReplies(ctx context.Context) (address string, replies contract.Subscriber, err error)
}

// NewAddress returns an address for a new reply destination: ASCII letters, digits and dashes.
func NewAddress() string { return report.Replies + "-" + waybill.NewID() }

// IsAddress reports whether to, the To of a message, is the address of a reply destination.
func IsAddress(to string) bool { return report.IsReply(to) }

// Label returns address, or one word for all reply destinations: each client ever started has one,
// too many for a metric label or a span name.
func Label(address string) string { return report.Label(address) }

// AddressOf returns where the reply to m is to be sent, and false if m asks for none: if it has
// no [AddressHeader], or one that names something else than a reply destination. So a request
// cannot have its reply sent to an arbitrary destination.
func AddressOf(m *waybill.Message) (address string, ok bool) {
	address = m.Headers[AddressHeader]
	return address, IsAddress(address)
}
