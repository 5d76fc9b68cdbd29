// Package deadletter shows the messages that a relay or a consumer gave up on, and settles
// them: by putting them back, by noting that they were dealt with, or by discarding them.
//
// Every change is made together with its line in the audit log, and a change that is asked
// for twice is made once.
package deadletter

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill"
)

// Origin says who gave up on a message.
type Origin string

const (
	FromRelay    Origin = "relay"    // it could not be published
	FromConsumer Origin = "consumer" // it could not be handled
)

// Letter is one dead letter.
type Letter struct {
	Number      int64          `json:"number"` // identifies the letter within its store, also when it is dead again after a requeue
	Origin      Origin         `json:"origin"`
	Consumer    string         `json:"consumer,omitempty"`
	Destination string         `json:"destination,omitempty"`
	Reason      waybill.Reason `json:"reason"`
	Error       string         `json:"error"`
	Fingerprint string         `json:"fingerprint"` // of its group, see [Fingerprint]
	Attempts    int            `json:"attempts"`
	Requeues    int            `json:"requeues"` // so it has died once more than that
	Failed      bool           `json:"failed"`   // stored while dead letters were disabled
	Requeued    bool           `json:"requeued"` // about to be run again by its consumer
	FirstFailed time.Time      `json:"first_failed_at"`
	LastFailed  time.Time      `json:"last_failed_at"`

	Parks      bool       `json:"parks"`  // later messages of its key wait until it is requeued or settled
	Behind     int        `json:"behind"` // how many wait, if it parks its key
	State      State      `json:"state"`
	ResolvedAt *time.Time `json:"resolved_at,omitempty"` // or discarded
	Resolution string     `json:"resolution,omitempty"`  // what was said when it was resolved or discarded
	Replay     int64      `json:"replay,omitempty"`      // the bulk replay that put it back last; 0 if that was not one

	// History holds the failed attempts, the oldest first: the first one and the last ones, at
	// most [MaxHistory]. Lists leave it nil; [Store.DeadLetter] fills it in.
	History []Attempt `json:"history,omitempty"`

	Message waybill.Message `json:"-"`
}

// Attempt is one failed attempt to publish or handle a message.
type Attempt struct {
	At    time.Time     `json:"at"`
	Node  string        `json:"node"`    // of the relay or consumer
	Took  time.Duration `json:"took_ns"` // 0 if it is not known
	Error string        `json:"error"`
}

// MaxHistory is how many attempts a letter remembers.
const MaxHistory = 20

// HadEffect is the resolution of a requeued letter whose message was processed in another
// way before it was run again.
const HadEffect = "already had its effect"

// State is what was decided about a letter.
type State string

const (
	Open      State = "open"      // nothing yet
	Resolved  State = "resolved"  // it was dealt with in another way
	Discarded State = "discarded" // it will not be dealt with
)

// Filter narrows a list of letters. Empty fields match everything, but for State.
type Filter struct {
	Origin      Origin `json:"origin,omitempty"`
	Consumer    string `json:"consumer,omitempty"`
	Topic       string `json:"topic,omitempty"`
	Type        string `json:"type,omitempty"`
	Tenant      string `json:"tenant,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	MessageID   string `json:"message_id,omitempty"`
	Key         string `json:"key,omitempty"`   // the message's ordering key
	State       State  `json:"state,omitempty"` // the default is Open

	CorrelationID string `json:"correlation_id,omitempty"`

	// Since and Until bound the last failure: Since ≤ LastFailed < Until.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`

	// Text is looked for in the error and in the message's id, key and correlation id, without
	// regard to upper and lower case. Without Fingerprint or Since, databases look for it no further than
	// in the newest [TextReach] letters that the other fields match, instead of in all there are.
	Text string `json:"text,omitempty"`

	Newest bool  `json:"-"` // by falling number, instead of by rising number
	After  int64 `json:"-"` // only letters behind the one with this number, for paging
	Limit  int   `json:"-"` // the default is 100
}

// DefaultLimit is the number of letters that a list returns if [Filter.Limit] is 0.
const DefaultLimit = 100

// TextReach is the number of letters that a [Filter.Text] alone is looked for in.
const TextReach = 10_000

// TextAlone reports whether the filter has a text that is looked for in the newest letters only.
func (f Filter) TextAlone() bool { return f.Text != "" && f.Fingerprint == "" && f.Since.IsZero() }

// Group is the open letters that fail alike.
type Group struct {
	Fingerprint string         `json:"fingerprint"`
	Origin      Origin         `json:"origin"`
	Consumer    string         `json:"consumer,omitempty"`
	Topic       string         `json:"topic"`
	Type        string         `json:"type"`
	Reason      waybill.Reason `json:"reason"` // of the newest letter
	Error       string         `json:"error"`  // of the newest letter
	Newest      int64          `json:"newest"` // its number
	Open        int            `json:"open"`
	LastFailed  time.Time      `json:"last_failed_at"`
	Trend       [24]int        `json:"trend"` // letters by hour of arrival, this hour last; also those that are not open any more
}

// Store keeps dead letters. Stores implement it; all methods are safe for concurrent use.
//
// Methods that change a letter write the audit log in the same transaction. They return true
// if they have changed something, and false if that had been done before. [waybill.ErrNotFound]
// stands for an unknown number, and for a letter whose message has arrived since it was
// requeued.
type Store interface {
	// DeadLetters returns the letters that match f, by rising number unless f says otherwise,
	// and an empty slice if there are none. They come without histories, and their messages without
	// payloads. A filter that [Filter.Check] refuses is an error.
	DeadLetters(ctx context.Context, f Filter) ([]Letter, error)

	// DeadLetter returns one letter with its history and the payload of its message.
	DeadLetter(ctx context.Context, number int64) (Letter, error)

	// DeadLetterGroups returns the groups with open letters, the largest first, at most so
	// many, and an empty slice if there are none. Counts are at most 5 seconds old.
	DeadLetterGroups(ctx context.Context, limit int) ([]Group, error)

	// RequeueDeadLetter puts a letter back, atomically. A relay's letter goes back to the
	// outbox with its id, key and position, its attempts counted anew. A consumer's letter
	// is run again by that consumer only, from the store. If the letter parks its key, what
	// waits behind it follows it. It returns false if it is on its way already, or if another
	// message with its id, or its corrected copy, is. [ErrResolved] stands for a letter that was
	// resolved or discarded, [ErrBehind] for one that has to wait for its turn. A consumer's letter without an inbox key can't be recognised if it
	// is run twice: that is a permanent error, reason no_id.
	RequeueDeadLetter(ctx context.Context, number int64, act Act) (bool, error)

	// ResolveDeadLetter notes that a letter was dealt with in another way; act.Why is the
	// resolution. The letter is kept, but listed on request only, and can't be requeued any
	// more; what waits behind it, if it parks its key, goes on. [ErrRequeued] stands for a
	// letter that is on its way again.
	ResolveDeadLetter(ctx context.Context, number int64, act Act) (bool, error)

	// DiscardDeadLetter is as ResolveDeadLetter, for a letter that nobody will deal with:
	// its message counts as discarded.
	DiscardDeadLetter(ctx context.Context, number int64, act Act) (bool, error)

	// RestoreDeadLetter opens a letter that was resolved or discarded by mistake, so that it can
	// be requeued. It parks its key no more. It returns false if the letter is open.
	// [ErrRequeued] as above.
	RestoreDeadLetter(ctx context.Context, number int64, act Act) (bool, error)

	// DeleteDeadLetter removes a letter with its message, whatever its state; the audit log keeps
	// its number and the message's id. What waits behind it, if it parks its key, goes on. A
	// consumer's message counts as processed from then on, for as long as the inbox remembers it.
	// [ErrRequeued] as above.
	DeleteDeadLetter(ctx context.Context, number int64, act Act) (bool, error)

	// EditDeadLetter requeues a corrected copy of a letter's message, atomically, and
	// resolves the letter. The copy has an id of its own, the original's id as its causation
	// id, and the place of the original in the order of its key; it may change payload,
	// content type, schema, type, headers, and topic or destination address, see [Edit]. It
	// returns the id of the copy. [ErrResolved], [ErrRequeued] and [ErrBehind] as above.
	EditDeadLetter(ctx context.Context, number int64, edit Edit, act Act) (id string, err error)

	// AuditLog returns the entries that match f, the newest first, and an empty slice if
	// there are none.
	AuditLog(ctx context.Context, f AuditFilter) ([]Entry, error)
}

var (
	// ErrResolved reports that a letter was resolved or discarded. Nothing was changed.
	ErrResolved = errors.New("deadletter: resolved already")

	// ErrRequeued reports that a letter can't be settled because it was requeued and is on
	// its way. Nothing was changed.
	ErrRequeued = errors.New("deadletter: requeued, and on its way")

	// ErrBehind reports that a relay's letter can't be requeued yet, because an earlier message of its key
	// is in the outbox and would be published after it. Nothing was changed; try again later.
	ErrBehind = errors.New("deadletter: behind an earlier message of its key, which is still to be published")
)
