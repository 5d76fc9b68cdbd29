// Package deadletter lists, requeues and resolves messages that a relay or a consumer gave up on.
package deadletter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

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
	Number      int64          `json:"number"` // identifies the letter within its store
	Origin      Origin         `json:"origin"`
	Consumer    string         `json:"consumer,omitempty"`
	Destination string         `json:"destination,omitempty"`
	Reason      waybill.Reason `json:"reason"`
	Error       string         `json:"error"`
	Attempts    int            `json:"attempts"`
	Requeues    int            `json:"requeues"`
	Failed      bool           `json:"failed"`   // stored while dead letters were disabled
	Requeued    bool           `json:"requeued"` // about to be run again by its consumer
	FirstFailed time.Time      `json:"first_failed_at"`
	LastFailed  time.Time      `json:"last_failed_at"`

	Parks      bool       `json:"parks"`  // later messages of its key wait until it is requeued or resolved
	Behind     int        `json:"behind"` // how many wait, if it parks its key
	ResolvedAt *time.Time `json:"resolved_at,omitempty"`
	Resolution string     `json:"resolution,omitempty"` // what was said when it was resolved

	Message waybill.Message `json:"-"`
}

// Filter narrows a list of letters. Empty fields match everything.
type Filter struct {
	Origin   Origin
	Consumer string
	Topic    string
	Type     string
	Tenant   string
	Resolved bool  // those that were resolved, instead of those that were not
	After    int64 // only letters with a higher number; for paging
	Limit    int   // the default is 100
}

// DefaultLimit is the number of letters that a list returns if [Filter.Limit] is 0.
const DefaultLimit = 100

// Store keeps dead letters. Stores implement it; all methods are safe for concurrent use.
type Store interface {
	// DeadLetters returns the letters that match f, by rising number, and an empty slice if
	// there are none.
	DeadLetters(ctx context.Context, f Filter) ([]Letter, error)

	// RequeueDeadLetter puts a letter back, atomically. A relay's letter goes back to the
	// outbox with its id, key and position, its attempts counted anew. A consumer's letter
	// is run again by that consumer only, from the store. If the letter parks its key, what
	// waits behind it follows it. It returns true if it was put back, and false if it is on
	// its way already, or if another message with its id is. [waybill.ErrNotFound] stands for
	// an unknown number, and for one whose message has arrived since, [ErrResolved] for a
	// letter that was resolved. A consumer's letter without an inbox key can't be recognised if it is
	// run twice: that is a permanent error, reason no_id.
	RequeueDeadLetter(ctx context.Context, number int64) (bool, error)

	// ResolveDeadLetter notes that a letter was dealt with in another way, in words of up to
	// waybill.MaxErrorLen bytes that may be empty. The letter is kept, but listed on request
	// only, and can't be requeued any more; what waits behind it, if it parks its key, goes
	// on. It returns true if it was resolved now, and false if it was resolved before, whose
	// words remain. [waybill.ErrNotFound] stands for an unknown number, and for one whose
	// message has arrived since it was requeued, [ErrRequeued] for a letter that is on its
	// way again. Words that are too long are an [*waybill.InvalidError].
	ResolveDeadLetter(ctx context.Context, number int64, resolution string) (bool, error)
}

var (
	// ErrResolved reports a requeue of a letter that was resolved. Nothing was changed.
	ErrResolved = errors.New("deadletter: resolved already")

	// ErrRequeued reports that a letter can't be resolved because it was requeued and is on
	// its way. Nothing was changed.
	ErrRequeued = errors.New("deadletter: requeued, and on its way")
)

// CheckResolution returns an error if the words of [Store.ResolveDeadLetter] can't be stored.
// Stores call it.
func CheckResolution(resolution string) error {
	switch {
	case len(resolution) > waybill.MaxErrorLen:
		return &waybill.InvalidError{Field: "resolution", Reason: fmt.Sprintf("has %d bytes, the limit is %d", len(resolution), waybill.MaxErrorLen)}
	case !utf8.ValidString(resolution), strings.ContainsRune(resolution, 0):
		return &waybill.InvalidError{Field: "resolution", Reason: "is not UTF-8 text, or holds a NUL"}
	}
	return nil
}
