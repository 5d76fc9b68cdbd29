package relaycore

import (
	"time"

	"github.com/waybill-go/waybill"
)

// Time is the time since the relay began, by its own steady clock.
type Time = time.Duration

// Event is something that has happened. The core learns of nothing else.
type Event interface{ apply(c *Core) }

// Leased answers a [Renew].
type Leased struct {
	Lanes []Lane // every lane that the relay owns
	Share int    // how many it should own at most
	Total int    // how many lanes there are
}

// LeaseFailed answers a [Renew] that failed.
type LeaseFailed struct {
	Lost bool // others have seen the lease expire, or the database is another one: nothing is owned
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

// Answered is what became of the messages of a [Publish]. Nil Results mean that all were accepted and
// go to no follower.
type Answered struct {
	Batch   *Batch
	Results []Result
	Window  time.Duration // for how long the broker recognises copies; 0 if it does not
}

// Result is what became of one message that was sent.
type Result struct {
	Err       error          // nil if it was accepted; the core hands it on and does not look into it
	Kind      waybill.Kind   // of Err
	Reason    waybill.Reason // of a permanent Err
	After     time.Duration  // of an unavailable Err that concerns this message alone: when to try again; else 0
	Lost      bool           // the connection ended under the message
	Unsure    bool           // the message may have arrived although it was not accepted
	Swallowed bool           // the broker took a first attempt for a copy
	Final     bool           // the relay itself says so: no other attempt would help
	Followers []string       // of an accepted message: the destinations that get it next
}

// Settled answers a [Settle]. Nothing was changed in the lanes of Lost, which others own.
type Settled struct {
	Lost []int
	Took time.Duration
}

// SettleFailed answers a [Settle] that failed. Refused says that the store was asked and that it is
// the settlements that it does not take.
type SettleFailed struct {
	Refused bool
	Err     error
}

// Tick says that time has passed. The shell sends one when [Core.Next] says so.
type Tick struct{}

// Stop ends the relay gracefully: nothing new is claimed or sent.
type Stop struct{}

// Command is something to do. The shell carries commands out in their order; none waits for another.
type Command interface{ command() }

// Renew extends the lease, or joins; the answer is [Leased] or [LeaseFailed].
type Renew struct {
	Join bool
	Give []int // lanes to give up: nothing of them is in flight
}

// Release moves due scheduled messages into the outbox; the answer is [Released].
type Release struct{ Limit int }

// Count counts what is parked in lanes; the answer is [Counted].
type Count struct{ Lanes []Lane }

// Claim reads messages; the answer is [Claimed] or [ClaimFailed].
type Claim struct {
	Lanes   []Lane
	Limit   int                // most messages
	Bytes   int                // no further message once payloads have so many bytes
	Due     bool               // look for waiting messages that are due, too
	DueOnly bool               // look for no others
	Held    []int64            // ascending: what is claimed already
	HeldFor map[int64][]string // of which only the waiting rows for some destinations are
	Again   []int              // lanes to be read from their beginning
	Paused  []string           // destinations whose waiting messages stay where they are
}

// ClaimAhead reads messages that never waited of other tenants than some, wherever they are, but none
// that has an earlier one of its key before it that stays unread; the answer is [ClaimedAhead].
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

// Publish sends a batch. It is called in the order of commands for each destination; the answer is
// [Answered].
type Publish struct{ Batch *Batch }

// Cut ends the wait for a batch: what is unanswered will be taken for lost.
type Cut struct{ Batch *Batch }

// Settle stores outcomes, all or none; the answer is [Settled] or [SettleFailed].
type Settle struct{ Settlements []Settlement }

// Report tells an observer what has happened.
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

// What says what a [Report] is about.
type What int

// The subjects of reports.
const (
	Claims       What = iota // Count messages were claimed
	LanesChanged             // Count lanes are owned
	LeaseLost                // Count lanes, or all with Count 0, belong to others
	StepsAside               // the lease runs out on purpose; Err says why
	ReleaseFails             // scheduled messages are not released
	BackPressure             // Count messages are parked: Err says which limit is reached, nil that none is
	PublishedNow             // Messages were accepted
	Overtaken                // Messages were accepted although an earlier one of their key was refused
	DedupExpired             // Messages were accepted, perhaps twice; Delay is the longest time between
	Paused                   // the destination, or its topic, is paused for Delay
	Resumed                  // the destination answers again
	SettledNow               // Count outcomes were stored
	SettleFails              // Count outcomes were not stored, and will be tried again
	SettleStalls             // the same, for more than a minute: Delay says how long
	Retried                  // the message of Settlement is tried again
	Dead                     // it is a dead letter
	Failed                   // it is given up, with dead letters disabled
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
