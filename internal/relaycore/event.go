package relaycore

import (
	"time"

	"github.com/waybill-go/waybill"
)

// Time is the time since the start of the relay, by its monotonic clock.
type Time = time.Duration

// Event is something that has happened. Events are the only input of the core.
type Event interface{ apply(c *Core) }

// Leased answers a [Renew].
type Leased struct {
	Lanes []Lane // every lane that the relay owns
	Share int    // most lanes it should own
	Total int    // number of lanes
}

// LeaseFailed answers a [Renew] that failed.
type LeaseFailed struct {
	Lost bool // others have seen the lease expire, or the database was replaced: nothing is owned
	Err  error
}

// Claimed answers a [Claim]. The messages belong to the core from now on.
type Claimed struct {
	Messages []Message
	Full     bool // there may be more
}

// ClaimFailed answers a [Claim] that failed.
type ClaimFailed struct{ Err error }

// ClaimedAhead answers a [ClaimAhead].
type ClaimedAhead struct {
	Messages []Message
	Reached  int64 // the position up to which everything was read
	Err      error
}

// Released answers a [Release]: Count messages that were scheduled are in the outbox now.
type Released struct {
	Count int
	Err   error
}

// Counted answers a [Count].
type Counted struct {
	Keys, Messages int
	Took           time.Duration
	Err            error
}

// Woken ends an [Await]: there may be something new.
type Woken struct{ Err error }

// Answered has the results of a [Publish]. Nil Results mean that all were accepted and have no
// followers.
type Answered struct {
	Batch   *Batch
	Results []Result
	Window  time.Duration // the broker's deduplication window; 0 if it has none
}

// Result is the result of sending one message.
type Result struct {
	Err       error          // nil if it was accepted; the core passes it on and does not inspect it
	Kind      waybill.Kind   // of Err
	Reason    waybill.Reason // of a permanent Err
	After     time.Duration  // of an unavailable Err that concerns only this message: when to retry; else 0
	Lost      bool           // the connection ended with the message in flight
	Unsure    bool           // the message may have arrived although it was not accepted
	Swallowed bool           // the broker took a first attempt for a copy
	Final     bool           // decided by the relay itself: another attempt would not help
	Followers []string       // of an accepted message: the destinations that get it next
}

// Settled answers a [Settle]. Nothing was changed in the lanes of Lost, which others own.
type Settled struct {
	Lost []int
	Took time.Duration
}

// SettleFailed answers a [Settle] that failed. Refused says that the store was reachable and did
// not accept the settlements.
type SettleFailed struct {
	Refused bool
	Err     error
}

// Tick says that time has passed. The shell sends one at the time of [Core.Next].
type Tick struct{}

// Stop ends the relay gracefully: nothing new is claimed or sent.
type Stop struct{}

// Command is something to do. The shell carries commands out in their order; none waits for another.
type Command interface{ command() }

// Renew extends the lease, or joins; the answer is [Leased] or [LeaseFailed].
type Renew struct {
	Join bool
	Give []int // lanes to release: nothing of them is in flight
}

// Release moves due scheduled messages into the outbox; the answer is [Released].
type Release struct{ Limit int }

// Count counts parked messages in lanes; the answer is [Counted].
type Count struct{ Lanes []Lane }

// Claim reads messages; the answer is [Claimed] or [ClaimFailed].
type Claim struct {
	Lanes   []Lane
	Limit   int                // most messages
	Bytes   int                // no further message once payloads have this many bytes
	Due     bool               // look for waiting messages that are due, too
	DueOnly bool               // look for no others
	Held    []int64            // ascending: positions already claimed
	HeldFor map[int64][]string // of these, positions with only the waiting rows for some destinations claimed
	Again   []int              // lanes to be read from their beginning
	Paused  []string           // destinations whose waiting messages are left out
}

// ClaimAhead reads messages that never waited, of tenants other than Without, but none with an
// earlier one of its key that remains unread; the answer is [ClaimedAhead].
type ClaimAhead struct {
	Lanes   []Lane
	Without []string // tenants
	Above   int64    // only positions above
	Span    int64    // positions to read
	Limit   int
	Bytes   int
	Held    []int64 // as in Claim
}

// Await waits until there may be something new to claim, at most until a time; the answer is [Woken].
type Await struct{ Until Time }

// EndAwait ends the Await that is running.
type EndAwait struct{}

// Publish sends a batch, in the order of commands for each destination; the answer is [Answered].
type Publish struct{ Batch *Batch }

// Cut ends the wait for a batch: unanswered messages count as lost.
type Cut struct{ Batch *Batch }

// Settle stores outcomes, all or none; the answer is [Settled] or [SettleFailed].
type Settle struct{ Settlements []Settlement }

// Report is reported to the observer.
type Report struct {
	What     What
	Dest     string
	Topic    string
	Count    int
	Delay    time.Duration
	Took     time.Duration
	Err      error
	Messages []*Message
	// Settlement is set for Retried, Dead and Failed.
	Settlement *Settlement
}

// What is the subject of a [Report].
type What int

// The subjects of reports.
const (
	Claims       What = iota // Count messages were claimed
	LanesChanged             // Count lanes are owned
	LeaseLost                // Count lanes, or all with Count 0, belong to others
	StepsAside               // the lease is left to expire on purpose; Err says why
	ReleaseFails             // scheduled messages are not released
	BackPressure             // Count messages are parked: Err says which limit is reached, nil that none is
	PublishedNow             // Messages were accepted
	Overtaken                // Messages were accepted although an earlier one of their key was refused
	DedupExpired             // Messages were accepted, perhaps twice; Delay is the longest time between the attempts
	Paused                   // the destination, or its topic, is paused for Delay
	Resumed                  // the destination answers again
	SettledNow               // Count outcomes were stored
	SettleFails              // Count outcomes were not stored, and will be retried
	SettleStalls             // the same, for more than a minute: Delay says how long
	Retried                  // the message of Settlement is retried
	Dead                     // it is dead-lettered
	Failed                   // as Dead, with dead letters disabled
	LoopFails                // a claim, a renewal or a wait failed: Topic names which
)

func (Renew) command()      {}
func (Release) command()    {}
func (Count) command()      {}
func (Claim) command()      {}
func (ClaimAhead) command() {}
func (Await) command()      {}
func (EndAwait) command()   {}
func (Publish) command()    {}
func (Cut) command()        {}
func (Settle) command()     {}
func (Report) command()     {}
