package request

import (
	"context"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// AddressHeader is the header of a request that says where its reply is to be sent.
const AddressHeader = "waybill-reply-to"

// addressLabel begins each address, and stands for all of them in metrics.
const addressLabel = "waybill-reply"

// Expiry is how long, at least, a reply destination outlives its client, and what was sent to it,
// where the broker removes it: longer than it takes to connect again.
const Expiry = 2 * time.Minute

// Broker is what requests and replies are published with. Every broker adapter is one. A [Client]
// also needs [ReplyOpener].
type Broker interface {
	// Publisher returns the publishing side.
	Publisher() contract.Publisher
}

// ReplyOpener is a broker that can receive replies. RabbitMQ, NATS, Kafka, Redis, Service Bus and the
// broker in memory can.
//
// To implement it:
//
//  1. Take the address from [NewAddress]. It is a destination like any other, that messages are
//     sent To, but for what follows.
//  2. Have the broker remove it, or what was sent to it, when it was not received from for [Expiry].
//  3. Publish to an address that is not there as if it were: report success. Whoever has asked
//     is gone, and the reply is of no use to anybody. [IsAddress] tells such addresses.
//  4. Run the tests of brokertest: [brokertest.Features].NoReplies must not be set.
type ReplyOpener interface {
	// OpenReplies makes a reply destination. What is sent to address from then on arrives at
	// replies. When a Subscribe of replies ends because its context has, the destination is
	// removed, or nobody receives from it any more; while one runs, a destination that the broker has lost is made anew. The error
	// is unavailable if the broker does not answer.
	OpenReplies(ctx context.Context) (address string, replies contract.Subscriber, err error)
}

// NewAddress returns an address for a new reply destination: ASCII letters, digits and dashes.
func NewAddress() string { return addressLabel + "-" + waybill.NewID() }

// IsAddress reports whether to, of a message, is the address of a reply destination.
func IsAddress(to string) bool { return strings.HasPrefix(to, addressLabel+"-") }

// Label returns address, or one word for all reply destinations, of which there is one for each
// client that ever was: too many for the label of a metric, or the name of a span.
func Label(address string) string {
	if IsAddress(address) {
		return addressLabel
	}
	return address
}

// AddressOf returns where the reply to m is to be sent, and false if m asks for none: if it has
// no [AddressHeader], or one that names something else than a reply destination. A request can
// so not have a reply sent to whichever destination it likes.
func AddressOf(m *waybill.Message) (address string, ok bool) {
	address = m.Headers[AddressHeader]
	return address, IsAddress(address)
}
