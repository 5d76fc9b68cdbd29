package contract

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
)

// Publisher hands messages to a broker. Brokers implement it; a relay calls it.
//
// To implement one:
//
//  1. Check what can be refused for one message alone (size, subject, headers) before
//     anything is written, and give that message a permanent error.
//  2. Write the rest in call order and return from Send; collect the confirmations in wait.
//  3. Report nil only for what the broker has durably accepted and routed.
//  4. Mark failures: permanent with a reason where the broker refuses for good (unroutable where no queue
//     would get the message now: that is retried), unavailable where
//     the broker as a whole does not answer, wrapping [ErrConnectionLost] where the
//     connection ended under the messages. Leave the rest unmarked (transient).
//  5. Where the broker deduplicates, use DedupID; an answer "duplicate" to a message with
//     Resent false is [ErrSwallowed], with Resent true it is success. Implement
//     [Deduplicator], so that the relay reports what is resent too late for it; and [LateConfirmer]
//     where confirms come over a connection whose loss is noticed without them.
//  6. Run the suite in broker/brokertest.
type Publisher interface {
	// Send writes msgs in call order and returns without waiting for the broker's answers.
	// wait must be called once; it returns one result per message, nil for durably accepted, no later than the
	// end of ctx, which always has a deadline; the result of an unconfirmed message is then unavailable and
	// wraps ctx's error. Send may be called again before an earlier wait has returned, by several goroutines;
	// each call keeps its own order. The messages are read-only and must not be kept after wait has returned.
	// If the connection ends during a call, the rest of its messages are not written to a new one: they would
	// overtake those that were lost.
	Send(ctx context.Context, msgs []Outgoing) (wait func() []error)
}

// Outgoing is one message to be published.
type Outgoing struct {
	*waybill.Message

	// DedupID is the deduplication id for the broker: the message's ID until it is requeued, "ID#rN"
	// after its N-th requeue.
	DedupID string

	// Resent says that an earlier attempt with this DedupID may have reached the broker.
	Resent bool

	// Structured asks for the structured content mode of CloudEvents instead of the binary one, see
	// [Destination]. Brokers that have no content modes write what they always do.
	Structured bool

	// Row says where the message lies in the store. A relay sets it for all messages; those of
	// other senders have the zero value.
	Row Row
}

// Row identifies one row of a store's outbox for one destination. It is the same for all attempts,
// whichever relay makes them.
type Row struct {
	Lane        int    // owned by at most one relay; all messages of a key have the same
	Position    int64  // above 0, and never drawn twice by the same store
	Destination string // its name; "" if the relay has only one destination
}

// Deduplicator is a [Publisher] whose broker drops what is published again under a
// [Outgoing.DedupID] that it remembers. A publisher that wraps another one passes it on.
type Deduplicator interface {
	// DedupWindow returns for how long after it has stored a message the broker remembers its
	// DedupID, as far as is known without asking the server; 0 if it does not deduplicate, or if that
	// is not known. It is safe for concurrent use.
	DedupWindow() time.Duration
}

// LateConfirmer is a [Publisher] whose broker may confirm late, over the connection on which it
// received the messages. Its ctx then ends long after PublishTimeout: until the connection is lost,
// which the publisher notices by itself, or the relay's lease, a late confirm settles what it
// confirms, and nothing is resent before. A publisher that wraps another one passes it on.
type LateConfirmer interface {
	// ConfirmsLate reports whether late confirms are to be waited for. It is safe for concurrent use.
	ConfirmsLate() bool
}
