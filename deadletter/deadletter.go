// Package deadletter lists and requeues messages that a relay or a consumer gave up on.
package deadletter

import (
	"context"
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

	Message waybill.Message `json:"-"`
}

// Filter narrows a list of letters. Empty fields match everything.
type Filter struct {
	Origin   Origin
	Consumer string
	Topic    string
	Type     string
	Tenant   string
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
	// is run again by that consumer only, from the store. It returns true if it was put
	// back, and false if it is on its way already, or if another message with its id is.
	// [waybill.ErrNotFound] stands for an unknown number, and for one whose message has
	// arrived since. A consumer's letter without an inbox key can't be recognised if it is
	// run twice: that is a permanent error, reason no_id.
	RequeueDeadLetter(ctx context.Context, number int64) (bool, error)
}
