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
// relay at a time; its epoch rises each time it changes hands and fences off settlements of
// an owner that has been superseded.
type Source interface {
	// RenewLanes registers the relay named by req.Node if req.Join is set, else extends its
	// lease. It gives up the lanes in req.Give, frees the lanes of relays whose lease has
	// expired, and takes free lanes up to an even share. A relay that is not registered any
	// more, because others saw its lease expire, has lost all its lanes: the error wraps
	// [waybill.ErrLeaseLost], and the relay must join again.
	RenewLanes(ctx context.Context, req LeaseRequest) (Lease, error)

	// LeaveLanes frees all lanes of the relay at once, and what the store keeps for its
	// AwaitMessages, also if it returns an error. It is no error if it has no lanes.
	LeaveLanes(ctx context.Context, node string) error

	// ClaimMessages returns up to req.Limit messages of req.Lanes that are committed, may go
	// now, and are not under way with the caller, in the order of positions within each key;
	// an empty slice if there are none. It changes nothing in the database. Every visible row is
	// found, also one that was committed after rows with higher positions. Nothing is returned of a
	// lane whose epoch is another by now, in the snapshot of what is read: a relay that was superseded
	// without knowing must not meet what the new owner has made of the lane. What a claim has returned
	// may be left out of later ones until the caller names the lane in req.Again. A claim that is not
	// full (see [ClaimRequest.Full]) means that there is no more now. One claim at a time for a lane.
	ClaimMessages(ctx context.Context, req ClaimRequest) ([]Claim, error)

	// SettleMessages writes down outcomes, all or none, for lanes that the relay still owns under the
	// epoch it knows. It returns the numbers of the others; for those nothing changed. A
	// row that is gone already is no error. It may be repeated after an error.
	SettleMessages(ctx context.Context, req SettleRequest) (lost []int, err error)

	// CountParked returns how many keys are parked behind dead letters in lanes, each counted
	// once for every destination, and how many messages wait behind them. It is asked about
	// once a second, of the caller's lanes.
	CountParked(ctx context.Context, lanes []Lane) (keys, messages int, err error)

	// ReleaseScheduled moves up to limit scheduled messages that are due into the outbox and
	// returns how many.
	ReleaseScheduled(ctx context.Context, limit int) (int, error)

	// MaintainArchive removes what was published, and forgets the ids that were enqueued with
	// outbox.Config.Unique, longer than req.Retention ago; a store with a partition for each
	// day removes whole days only. It makes room for what will be archived in the next days.
	// Any number of relays may call it at once: one does the work, the others return at once
	// with Busy set. A conflict means that somebody holds a lock for too long; the rest is
	// done by a later call. The result says what was done, also beside an error.
	MaintainArchive(ctx context.Context, req MaintainRequest) (Maintained, error)

	// AwaitMessages is called by the relay named node when a claim has found nothing. It
	// returns nil as soon as there may be something new to claim, and when ctx is done: the
	// relay sets the time of its next poll as the deadline. It may return for nothing, and
	// does so at the first call of a node.
	//
	// What a transaction of this store object has committed since that claim began, or
	// WakeRelay has told of, ends the wait at once; so do the commits of
	// others, if the store can learn of them. What it misses only waits for the poll. An
	// error says that the database failed; the relay waits a while and claims again.
	//
	// A store may keep a connection open for those who wait; LeaveLanes releases what it
	// keeps for the node. One call at a time for a node.
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
	Give []int         // lanes to give up
}

// Lease is what a relay owns.
type Lease struct {
	Lanes []Lane // every lane that the relay owns
	Share int    // how many it should own at most, so that live relays share evenly; also set if it owns none
	Total int    // how many lanes there are
}

// ClaimRequest is what [Source.ClaimMessages] needs.
type ClaimRequest struct {
	Lanes   []Lane
	Limit   int      // most messages to return; which of more is up to the store, but for the order of each key
	Bytes   int      // no further message is returned once payloads have so many bytes; 0 means no limit
	Due     bool     // look for waiting messages that are due, too
	DueOnly bool     // look for no others: messages that never waited stay where they are
	Held    []int64  // ascending: positions that the caller has claimed and not settled; not returned
	Again   []int    // lanes to be read from their beginning: the caller may have let go of what it claimed
	Paused  []string // destinations whose waiting messages stay where they are

	// HeldFor are the destinations, by position, of those of Held of which the caller has the waiting
	// rows for these destinations only: those for others may be returned.
	HeldFor map[int64][]string
}

// HeldWaiting returns which waiting rows the caller holds: all of some positions, ascending, and single
// rows, each as its position, a slash and its destination.
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

// Full reports whether claims are as many, or as large, as the request allows.
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
	Rows    int64 // removed one by one, ids of messages among them
	Added   int   // partitions made
	Dropped int   // partitions removed, with all their rows
	Busy    bool  // another caller was at work, which leaves the rest to it
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

	// Blocked says that an earlier message of the same topic and key waits, or that a dead
	// letter parks the key: this one must follow it there.
	Blocked bool

	Attempts int           // failed attempts of this life
	Life     int           // requeues so far
	DelayFor time.Duration // what is left until DeliverAt by the store's clock; 0 if due
	Expired  bool          // ExpiresAt has passed by the store's clock

	// ExpiresIn is what is left until ExpiresAt by the store's clock; 0 if it has passed, or
	// if the message does not expire.
	ExpiresIn time.Duration

	// Malformed is set if the row can't be decoded; Message then holds what could be read.
	Malformed error
}

// Outcome says what became of a claimed message.
type Outcome int

const (
	Published Outcome = iota // accepted by the broker: to the archive, or gone
	Wait                     // may not go now: to, or back to, the waiting rows
	Schedule                 // not due yet: to the scheduled rows
	Fanout                   // one waiting row, due now, for each destination, instead of the one for none that it may have
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

	// Alone says, for Wait, that the message has left the order of its key: it is due on its
	// own, and nothing waits behind it. Behind must not be set.
	Alone bool

	// Park says, for Dead and Failed, that the dead letter parks its destination, topic and
	// key: what is behind it there waits, in order and without a due time, until the letter
	// is requeued or resolved.
	Park bool

	Attempts int            // Wait, Dead, Failed: failed attempts so far
	Life     int            // Wait: the life that the next attempt belongs to
	Reason   waybill.Reason // Dead, Failed: why
	Error    string         // Wait, Dead, Failed: the last error, as by waybill.ErrorText
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
