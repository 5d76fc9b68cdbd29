package relay

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
)

// Source is where a relay takes committed messages from. Stores implement it; all methods
// are safe for concurrent use.
//
// Messages lie in lanes, a fixed number of hash buckets of keys. A lane is leased by one
// relay at a time; its epoch rises each time it changes hands and fences off settlements of
// an owner that has been superseded.
type Source interface {
	// RenewLanes registers the relay named by req.Node if req.Join is set, else extends its
	// lease. It gives up the lanes in req.Give, frees the lanes of relays whose lease has
	// expired, and takes free lanes up to an even share. A relay that is not registered any
	// more, because others saw its lease expire, has lost all its lanes: the error wraps
	// [waybill.ErrLeaseLost], and the relay must join again.
	RenewLanes(ctx context.Context, req LeaseRequest) (Lease, error)

	// LeaveLanes frees all lanes of the relay at once. It is no error if it has none.
	LeaveLanes(ctx context.Context, node string) error

	// ClaimMessages returns up to req.Limit messages of req.Lanes that are committed and may
	// go now, in the order of positions within each key, and an empty slice if there are
	// none. It changes nothing: the caller must own the lanes and must have settled, or
	// forgotten, what it claimed from them before. Every visible row is found, also one that
	// was committed after rows with higher positions.
	ClaimMessages(ctx context.Context, req ClaimRequest) ([]Claim, error)

	// SettleMessages writes down outcomes, all or none, for lanes whose epoch still holds. It
	// returns the numbers of the lanes that have changed hands; for those nothing changed. A
	// row that is gone already is no error. It may be repeated after an error.
	SettleMessages(ctx context.Context, req SettleRequest) (lost []int, err error)

	// ReleaseScheduled moves up to limit scheduled messages that are due into the outbox and
	// returns how many.
	ReleaseScheduled(ctx context.Context, limit int) (int, error)

	// MaintainArchive removes what was published, and forgets the ids that were enqueued with
	// outbox.Config.Unique, longer than retention ago, in batches; a store with a partition
	// for each day removes whole days only. It makes room for what will be archived in the
	// next days. Several relays may call it at once.
	MaintainArchive(ctx context.Context, retention time.Duration) error

	// Wakeups returns a new channel on which a value arrives when a transaction that this
	// store object knows of has committed messages. It is a hint: values may be merged, and
	// commits of others are not announced.
	Wakeups() <-chan struct{}
}

// Lane is a leased lane.
type Lane struct {
	Number int
	Epoch  int64
}

// LeaseRequest is what [Source.RenewLanes] needs.
type LeaseRequest struct {
	Node string        // the relay's name, unique among live relays
	Join bool          // register first
	TTL  time.Duration // how long the lease holds from now on, by the store's clock
	Give []int         // lanes to give up
}

// Lease is what a relay owns.
type Lease struct {
	Lanes []Lane // every lane that the relay owns
	Share int    // how many it should own at most, so that live relays share evenly; also set if it owns none
}

// ClaimRequest is what [Source.ClaimMessages] needs.
type ClaimRequest struct {
	Lanes  []Lane   // read in this order until Limit is reached; waiting messages come before, by position
	Limit  int      // most messages to return
	Paused []string // destinations whose waiting messages stay where they are
}

// Claim is one message read from a source.
type Claim struct {
	Message  waybill.Message
	Lane     Lane
	Position int64 // order of the enqueue, drawn by the store

	// Destination is the one that the row is for; "" for a row that is not yet routed, or if
	// the relay has only one.
	Destination string

	// Waiting says that the row waited (for a retry, or behind an earlier message) and is due.
	Waiting bool

	// Blocked says that an earlier message of the same topic and key waits: this one must
	// follow it there.
	Blocked bool

	Attempts int           // failed attempts of this life
	Life     int           // requeues so far
	DelayFor time.Duration // what is left until DeliverAt by the store's clock; 0 if due
	Expired  bool          // ExpiresAt has passed by the store's clock

	// Malformed is set if the row can't be decoded; Message then holds what could be read.
	Malformed error
}

// Outcome says what became of a claimed message.
type Outcome int

const (
	Published Outcome = iota // accepted by the broker: to the archive, or gone
	Wait                     // may not go now: to, or back to, the waiting rows
	Schedule                 // not due yet: to the scheduled rows
	Fanout                   // several destinations: one waiting row, due now, for each
	Dead                     // given up: to the dead letters
	Failed                   // given up with dead letters disabled: kept, marked as failed
)

// Settlement is the outcome of one claimed message.
type Settlement struct {
	Claim   *Claim
	Outcome Outcome

	// After is, for Wait, how long from now until the message is due again. It is ignored
	// if Behind is set, or if an earlier message of the same destination, topic and key
	// waits already: the message is then due when that one has gone.
	After  time.Duration
	Behind bool

	Attempts int            // Wait, Dead, Failed: failed attempts so far
	Life     int            // Wait: the life that the next attempt belongs to
	Reason   waybill.Reason // Dead, Failed: why
	Error    string         // Wait, Dead, Failed: the last error, as by waybill.ErrorText

	// Destinations are, for Fanout, those that get a row each; for Published, those that get
	// a waiting row now that the message is published.
	Destinations []string
}

// SettleRequest is what [Source.SettleMessages] needs.
type SettleRequest struct {
	Node        string
	Archive     bool // keep published messages
	Settlements []Settlement
}
