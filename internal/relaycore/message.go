package relaycore

import (
	"time"

	"github.com/waybill-go/waybill"
)

// Lane is a leased lane: a hash bucket of keys.
type Lane struct {
	Number int
	Epoch  int64 // rises each time the lane's owner changes
}

// Message is what the core knows of one claimed row. The shell fills in the exported fields and
// changes none of them after a [Claimed].
type Message struct {
	ID       string // identifies the message in recordings
	Position int64  // order of the enqueue
	Lane     Lane
	Dest     string // the destination of the row; "" for one that is not routed yet, or if there is only one
	Topic    string
	Key      string // ordering key; "" for none
	Tenant   string
	Attempts int // failed attempts since the enqueue or the last requeue
	Life     int // requeues
	Size     int // bytes in memory, more than [EmptySize]

	Waiting   bool          // the row waited and is due
	Blocked   bool          // an earlier message of its key waits, or is parked
	Malformed error         // the row cannot be decoded
	Expired   bool          // ExpiresAt has passed
	ExpiresIn time.Duration // until it expires; 0 if it does not
	DelayFor  time.Duration // until it may be sent; 0 if it may now

	// Routes are the destinations that match a message that is not routed yet.
	Routes []string
	// RouteErr is the error of the Match of its destination.
	RouteErr error

	Tag any // the shell's own

	// Resent says, for a message in a [Publish], that an earlier attempt may have arrived.
	Resent bool
	// Deferred says that the message will not be sent by this claim: its payload is not needed.
	Deferred bool

	line      *line // of its unit; nil before it has one
	expiresAt Time
	fate      Result // of one that is not to be sent; else its Err is nil
}

// EmptySize is the approximate size of a message without payload in memory.
const EmptySize = 640

// expired reports whether the message has expired, possibly while it was held.
func (m *Message) expired(now Time) bool {
	return m.Expired || m.ExpiresIn > 0 && now >= m.expiresAt
}

// Settlement is the outcome of one message, to be stored.
type Settlement struct {
	Message *Message
	Outcome Outcome

	After    time.Duration  // Wait: until it is due again; ignored if Behind
	Behind   bool           // Wait: it is due when the earlier message of its unit has left
	Alone    bool           // Wait: it has left the order of its key
	Park     bool           // Dead: what is behind it waits until it is requeued or resolved
	Attempts int            // failed attempts so far
	Life     int            // requeues, for the next attempt
	Reason   waybill.Reason // Dead: why
	Took     time.Duration  // of the attempt; 0 if there was none
	Err      error          // of the last attempt
	To       []string       // Fanout: destinations that get a row; Published: followers
}

// Outcome says what to do with a row.
type Outcome int

// The outcomes, in the order of those in package relay.
const (
	Published    Outcome = iota // accepted
	Wait                        // it waits until it is due, or behind another one
	Schedule                    // it is not to be sent before its time
	Fanout                      // a row for each destination
	DeadLetter                  // dead-lettered
	FailedLetter                // as DeadLetter, with dead letters disabled
)
