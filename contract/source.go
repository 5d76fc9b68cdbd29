package contract

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

// Source is where a relay takes committed messages from. Stores implement it; all methods
// are safe for concurrent use.
//
// Messages lie in lanes, a fixed number of hash buckets of keys. A lane is leased by one
// relay at a time; its epoch rises each time its owner changes and fences off settlements of an
// earlier owner.
type Source interface {
	// RenewLanes registers the relay named by req.Node if req.Join is set, else extends its
	// lease. It releases the lanes in req.Give, frees the lanes of relays whose lease has expired, and
	// takes free lanes up to an even share. A relay that is no longer registered, because others saw
	// its lease expire, has lost all its lanes: the error wraps [waybill.ErrLeaseLost], and the relay
	// must join again.
	RenewLanes(ctx context.Context, req LeaseRequest) (Lease, error)

	// LeaveLanes frees all lanes of the relay at once, and what the store keeps for its AwaitMessages,
	// even if it returns an error. It is no error if the relay has no lanes.
	LeaveLanes(ctx context.Context, node string) error

	// ClaimMessages returns up to req.Limit messages of req.Lanes that are committed, may be published
	// now, and are not in flight with the caller, in the order of positions within each key; an empty
	// slice if there are none. It changes nothing in the database. Every visible row is
	// found, also one that was committed after rows with higher positions. Nothing is returned of a
	// lane whose epoch has changed, in the snapshot of what is read: a relay that has lost a lane
	// without knowing must not see what the new owner has done with it. What a claim has returned may
	// be left out of later ones until the caller names the lane in req.Again. A claim that is not full
	// (see [ClaimRequest.Full]) means that there is no more now. At most one claim runs for a lane.
	ClaimMessages(ctx context.Context, req ClaimRequest) ([]Claim, error)

	// SettleMessages persists outcomes, all or none, for lanes that the relay still owns under the
	// epoch it knows. It returns the numbers of the other lanes, for which nothing changed. A row that
	// no longer exists is no error. The call may be repeated after an error.
	SettleMessages(ctx context.Context, req SettleRequest) (lost []int, err error)

	// CountParked returns how many keys are parked behind dead letters in lanes, each counted
	// once for every destination, and how many messages wait behind them. It is called about once a
	// second, for the caller's lanes.
	CountParked(ctx context.Context, lanes []Lane) (keys, messages int, err error)

	// ReleaseScheduled moves up to limit scheduled messages that are due into the outbox and
	// returns how many.
	ReleaseScheduled(ctx context.Context, limit int) (int, error)

	// MaintainArchive removes what was published, and forgets the ids that were enqueued with
	// outbox.Config.Unique, longer than req.Retention ago; a store with a partition for each
	// day removes whole days only. It makes room for what will be archived in the next days.
	// Any number of relays may call it concurrently: one does the work, the others return at once with
	// Busy set. A conflict means that another session held a lock for too long; the rest is done by a
	// later call. The result says what was done, even if there is an error.
	MaintainArchive(ctx context.Context, req MaintainRequest) (Maintained, error)

	// AwaitMessages is called by the relay named node when a claim has found nothing. It
	// returns nil as soon as there may be something new to claim, and when ctx is done: the
	// relay sets the time of its next poll as the deadline. It may return spuriously, and does so at
	// the first call of a node.
	//
	// A commit by this store object since that claim began, or a call of WakeRelay, ends the wait at
	// once; so do the commits of others, if the store can learn of them. What it misses waits for the
	// next poll. An error says that the database failed; the relay waits a while and claims again.
	//
	// A store may keep a connection open for waiting relays; LeaveLanes releases what it keeps for the
	// node. At most one call runs for a node.
	AwaitMessages(ctx context.Context, node string) error
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
	Give []int         // lanes to release
}

// Lease is what a relay owns.
type Lease struct {
	Lanes []Lane // every lane that the relay owns
	Share int    // most lanes it should own, so that live relays share evenly; also set if it owns none
	Total int    // number of lanes
}

// ClaimRequest is what [Source.ClaimMessages] needs.
type ClaimRequest struct {
	Lanes   []Lane
	Limit   int      // most messages to return; which of more is up to the store, but for the order of each key
	Bytes   int      // no further message is returned once payloads have this many bytes; 0 means no limit
	Due     bool     // look for waiting messages that are due, too
	DueOnly bool     // look for no others: messages that never waited are left out
	Held    []int64  // ascending: positions that the caller has claimed and not settled; not returned
	Again   []int    // lanes to be read from their beginning: the caller may have released what it claimed
	Paused  []string // destinations whose waiting messages are left out

	// HeldFor maps positions in Held to destinations where the caller has claimed the waiting rows for
	// these destinations only: rows for others may be returned.
	HeldFor map[int64][]string
}

// HeldWaiting returns which waiting rows the caller holds: positions of which it holds all rows,
// ascending, and single rows, each as its position, a slash and its destination.
func (r *ClaimRequest) HeldWaiting() (positions []int64, rows []string) {
	positions, rows = make([]int64, 0, len(r.Held)), []string{}
	for _, p := range r.Held {
		destinations := r.HeldFor[p]
		if len(destinations) == 0 {
			positions = append(positions, p)
		}
		for _, d := range destinations {
			rows = append(rows, fmt.Sprint(p, "/", d))
		}
	}
	return positions, rows
}

// Full reports whether claims reach the request's limit of messages or bytes.
func (r *ClaimRequest) Full(claims []Claim) bool {
	return len(claims) >= r.Limit || r.Bytes > 0 && r.Left(claims) == 0
}

// Left returns how many of the request's Bytes claims have left, 0 if none or if there is no limit.
func (r *ClaimRequest) Left(claims []Claim) int {
	left := r.Bytes
	for i := range claims {
		left -= len(claims[i].Message.Payload)
	}
	return max(0, left)
}

// MaintainRequest is what [Source.MaintainArchive] needs.
type MaintainRequest struct {
	Retention time.Duration // how long to keep; 0: remove nothing
	BatchSize int           // most rows that one statement removes
}

// Maintained is what [Source.MaintainArchive] has done.
type Maintained struct {
	Rows    int64 // removed one by one, remembered ids of messages included
	Added   int   // partitions made
	Dropped int   // partitions removed, with all their rows
	Busy    bool  // another caller was at work; the rest is left to it
}

// Claim is one message read from a source.
type Claim struct {
	Message  waybill.Message
	Lane     Lane
	Position int64 // order of the enqueue, drawn by the store

	// Destination is the one that the row is for; "" for a row that is not yet routed, or if
	// the relay has only one.
	Destination string

	// Waiting says that the row was waiting (for a retry, or behind an earlier message) and is due.
	Waiting bool

	// Blocked says that an earlier message of the same topic and key waits, or that a dead
	// letter parks the key: this one must follow it there.
	Blocked bool

	Attempts int           // failed attempts since the enqueue or the last requeue
	Life     int           // requeues so far
	DelayFor time.Duration // time until DeliverAt by the store's clock; 0 if due
	Expired  bool          // ExpiresAt has passed by the store's clock

	// ExpiresIn is the time until ExpiresAt by the store's clock; 0 if it has passed, or
	// if the message does not expire.
	ExpiresIn time.Duration

	// Malformed is set if the row can't be decoded; Message then holds what could be read.
	Malformed error
}

// Outcome says what to do with a claimed message.
type Outcome int

const (
	Published Outcome = iota // accepted by the broker: archived, or deleted
	Wait                     // may not be published now: moved to, or kept in, the waiting rows
	Schedule                 // not due yet: moved to the scheduled rows
	Fanout                   // one waiting row, due now, for each destination; replaces a waiting row without one
	Dead                     // dead-lettered
	Failed                   // as Dead, with dead letters disabled: kept, marked as failed
)

// Settlement is the outcome of one claimed message.
type Settlement struct {
	Claim   *Claim
	Outcome Outcome

	// After is, for Wait, how long from now until the message is due again. It is ignored
	// if Behind is set, or if an earlier message of the same destination, topic and key
	// waits already: the message is then due when that one has left.
	After  time.Duration
	Behind bool

	// Alone says, for Wait, that the message has left the order of its key: it has a due time of its
	// own, and nothing waits behind it. Behind must not be set.
	Alone bool

	// Park says, for Dead and Failed, that the dead letter parks its destination, topic and
	// key: what is behind it there waits, in order and without a due time, until the dead letter is
	// requeued or resolved.
	Park bool

	Attempts int            // Wait, Dead, Failed: failed attempts so far
	Life     int            // Wait: requeues, for the next attempt
	Reason   waybill.Reason // Dead, Failed: why
	Error    string         // Wait, Dead, Failed: the last error, as by observe.ErrorText
	Took     time.Duration  // how long the attempt took; 0 if there was none

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
