// Package deadletter inspects and settles dead letters, the messages that a relay or a consumer
// failed to publish or handle: they can be requeued, resolved or discarded.
//
// Every change is made together with its entry in the audit log, and a change that is requested
// twice is made once.
package deadletter

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill"
)

// Origin says whether a relay or a consumer dead-lettered a message.
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
	Requeues    int            `json:"requeues"` // it was dead-lettered once more than that
	Failed      bool           `json:"failed"`   // stored while dead letters were disabled
	Requeued    bool           `json:"requeued"` // about to be run again by its consumer
	FirstFailed time.Time      `json:"first_failed_at"`
	LastFailed  time.Time      `json:"last_failed_at"`

	Parks      bool       `json:"parks"`  // later messages of its key wait until it is requeued or settled
	Behind     int        `json:"behind"` // how many wait, if it parks its key
	State      State      `json:"state"`
	ResolvedAt *time.Time `json:"resolved_at,omitempty"` // or discarded
	Resolution string     `json:"resolution,omitempty"`  // the reason given when it was resolved or discarded
	Replay     int64      `json:"replay,omitempty"`      // the bulk replay that last requeued it; 0 if none did

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

// MaxHistory is how many attempts a dead letter keeps.
const MaxHistory = 20

// HadEffect is the resolution of a requeued dead letter whose message was processed in another way
// before it was handled again.
const HadEffect = "already had its effect"

// State is what was decided about a dead letter.
type State string

const (
	Open      State = "open"      // nothing yet
	Resolved  State = "resolved"  // it was dealt with in another way
	Discarded State = "discarded" // it will not be dealt with
)

// Filter narrows a list of dead letters. Empty fields match everything, except State.
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

	// Text is searched in the error and in the message's id, key and correlation id, case-insensitively.
	// Without Fingerprint or Since, databases search only the newest [TextReach] letters that the other
	// fields match, instead of all.
	Text string `json:"text,omitempty"`

	Newest bool  `json:"-"` // by descending number, instead of ascending
	After  int64 `json:"-"` // only letters after the one with this number, for paging
	Limit  int   `json:"-"` // the default is 100
}

// DefaultLimit is the number of dead letters that a list returns if [Filter.Limit] is 0.
const DefaultLimit = 100

// TextReach is the number of dead letters that are searched for a [Filter.Text] without Fingerprint or Since.
const TextReach = 10_000

// TextAlone reports whether the filter has a text that is searched in the newest [TextReach] letters only.
func (f Filter) TextAlone() bool { return f.Text != "" && f.Fingerprint == "" && f.Since.IsZero() }

// Group is a group of open dead letters that failed with the same error.
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
	Trend       [24]int        `json:"trend"` // letters by hour of arrival, this hour last; including those that are no longer open
}

// Store keeps dead letters. Stores implement it; all methods are safe for concurrent use.
//
// Methods that change a letter write the audit log in the same transaction. They return true if
// they have changed something, and false if that had been done before. The error is
// [waybill.ErrNotFound] for an unknown number, and for a letter whose message has arrived since it
// was requeued.
type Store interface {
	// DeadLetters returns the letters that match f, by ascending number unless f says otherwise,
	// and an empty slice if there are none. They come without histories, and their messages without
	// payloads. A filter that [Filter.Check] refuses is an error.
	DeadLetters(ctx context.Context, f Filter) ([]Letter, error)

	// DeadLetter returns one letter with its history and the payload of its message.
	DeadLetter(ctx context.Context, number int64) (Letter, error)

	// DeadLetterGroups returns up to limit groups with open letters, the largest first, and an empty
	// slice if there are none. Counts are at most 5 seconds old.
	DeadLetterGroups(ctx context.Context, limit int) ([]Group, error)

	// RequeueDeadLetter requeues a letter, atomically. A relay's letter returns to the outbox with its id, key and
	// position, and its attempts start from 0. A consumer's letter is handled again by that consumer only, from the
	// store. If the letter parks its key, what waits behind it follows it. It returns false if the letter is
	// already pending, or if another message with its id, or its corrected copy, is. The error is [ErrResolved] for
	// a letter that was resolved or discarded, and [ErrBehind] for one that has to wait for an earlier message. A
	// consumer's letter without an inbox key can't be recognised if it is handled twice: that is a permanent error,
	// reason no_id.
	RequeueDeadLetter(ctx context.Context, number int64, act Act) (bool, error)

	// ResolveDeadLetter records that a letter was dealt with in another way; act.Why is the resolution.
	// The letter is kept, but listed on request only, and can no longer be requeued; if it parks its
	// key, what waits behind it is released. The error is [ErrRequeued] for a letter that was requeued
	// and is pending.
	ResolveDeadLetter(ctx context.Context, number int64, act Act) (bool, error)

	// DiscardDeadLetter is like ResolveDeadLetter, for a letter that will not be dealt with: its
	// message counts as discarded.
	DiscardDeadLetter(ctx context.Context, number int64, act Act) (bool, error)

	// RestoreDeadLetter opens a letter that was resolved or discarded by mistake, so that it can
	// be requeued. It no longer parks its key. RestoreDeadLetter returns false if the letter is open.
	// [ErrRequeued] as above.
	RestoreDeadLetter(ctx context.Context, number int64, act Act) (bool, error)

	// DeleteDeadLetter removes a letter with its message, whatever its state; the audit log keeps
	// its number and the message's id. If it parks its key, what waits behind it is released. A
	// consumer's message counts as processed from then on, for as long as the inbox remembers it.
	// [ErrRequeued] as above.
	DeleteDeadLetter(ctx context.Context, number int64, act Act) (bool, error)

	// EditDeadLetter requeues a corrected copy of a letter's message, atomically, and
	// resolves the letter. The copy has a new id, the original's id as its causation id, and the
	// original's place in the order of its key; it may change payload, content type, schema, type,
	// headers, and topic or destination address, see [Edit]. It returns the id of the copy.
	// [ErrResolved], [ErrRequeued] and [ErrBehind] as above.
	EditDeadLetter(ctx context.Context, number int64, edit Edit, act Act) (id string, err error)

	// AuditLog returns the entries that match f, the newest first, and an empty slice if
	// there are none.
	AuditLog(ctx context.Context, f AuditFilter) ([]Entry, error)
}

var (
	// ErrResolved reports that a dead letter was resolved or discarded. Nothing was changed.
	ErrResolved = errors.New("deadletter: resolved already")

	// ErrRequeued reports that a dead letter can't be settled because it was requeued and is pending.
	// Nothing was changed.
	ErrRequeued = errors.New("deadletter: requeued, and pending")

	// ErrBehind reports that a relay's dead letter can't be requeued yet, because an earlier message of its key
	// is in the outbox and would be published after it. Nothing was changed; try again later.
	ErrBehind = errors.New("deadletter: behind an earlier message of its key, which is still to be published")
)
