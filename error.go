package waybill

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Kind says how to react to a failure.
type Kind int

const (
	// Transient is a failure of this one message that may pass: try again later, at most
	// MaxRetries times. An error without a kind is transient.
	Transient Kind = iota
	// Permanent is a failure that will not pass: dead letter at once.
	Permanent
	// Unavailable is a failure of the other side as a whole (connection refused, broker
	// blocked, database down, our own shutdown): wait, the attempt does not count.
	Unavailable
	// Conflict is a clash of transactions (serialization failure, deadlock, lock timeout):
	// repeat the transaction, the attempt does not count.
	Conflict
)

func (k Kind) String() string {
	switch k {
	case Permanent:
		return "permanent"
	case Unavailable:
		return "unavailable"
	case Conflict:
		return "conflict"
	}
	return "transient"
}

// Reason is the class of a permanent failure, stored with the dead letter and used as a
// metric label.
type Reason string

const (
	ReasonExhausted   Reason = "exhausted"    // the retries are used up
	ReasonRejected    Reason = "rejected"     // refused for good by the handler or the broker
	ReasonUnroutable  Reason = "unroutable"   // nothing is bound where the message should go
	ReasonTooLarge    Reason = "too_large"    // larger than the broker takes
	ReasonMalformed   Reason = "malformed"    // envelope, row or payload can't be decoded
	ReasonUnknownType Reason = "unknown_type" // no handler for the type
	ReasonNoID        Reason = "no_id"        // an inbound message without an id
	ReasonExpired     Reason = "expired"      // ExpiresAt had passed
	ReasonPoison      Reason = "poison"       // it kills the connection it is sent on
	ReasonDuplicateID Reason = "duplicate_id" // scheduled under an id that was taken when it was due
	ReasonCancelled   Reason = "cancelled"    // cancelled before it was published
	ReasonConflict    Reason = "conflict"     // same id as a processed message, other payload
)

var (
	// ErrLeaseLost reports that another relay had taken over the lane before a settlement. Nothing was
	// changed and nothing is lost; do not repeat the settlement.
	ErrLeaseLost = errors.New("waybill: lease lost")

	// ErrNotMigrated reports that the store's tables are missing, or are those of an older release: its Migrate,
	// or "waybill migrate", creates them. Only SQL stores return it; MongoDB and Redis have no tables.
	ErrNotMigrated = errors.New("waybill: the store's tables are missing or of an older release")

	// ErrNotFound reports that no record has the given id.
	ErrNotFound = errors.New("waybill: not found")
)

// kindError attaches a kind to an error, with the data of some kinds.
type kindError struct {
	kind   Kind
	reason Reason
	after  time.Duration
	err    error
}

func (e *kindError) Error() string { return e.err.Error() }
func (e *kindError) Unwrap() error { return e.err }

// PermanentError marks err as permanent with the given reason. It returns nil for nil.
func PermanentError(reason Reason, err error) error {
	return withKind(&kindError{kind: Permanent, reason: reason, err: err})
}

// UnavailableError marks err as unavailable. It returns nil for nil.
func UnavailableError(err error) error {
	return withKind(&kindError{kind: Unavailable, err: err})
}

// ConflictError marks err as a conflict. It returns nil for nil.
func ConflictError(err error) error {
	return withKind(&kindError{kind: Conflict, err: err})
}

// RetryAfter marks err as unavailable for this one message and says how long to wait. The
// attempt does not count and the destination is not paused. It returns nil for nil.
func RetryAfter(after time.Duration, err error) error {
	return withKind(&kindError{kind: Unavailable, after: max(after, time.Millisecond), err: err})
}

func withKind(e *kindError) error {
	if e.err == nil {
		return nil
	}
	return e
}

// KindOf returns the kind of err, looking through wrapped errors; the outermost mark
// counts. An [*InvalidError] is permanent; a cancelled context is unavailable, because it
// is our own shutdown; everything unmarked, a passed deadline included, is transient. A
// consumer knows which contexts are its own: it takes a cancellation for its shutdown only if
// the handler's context was cancelled.
func KindOf(err error) Kind {
	var k *kindError
	if errors.As(err, &k) {
		return k.kind
	}
	var invalid *InvalidError
	if errors.As(err, &invalid) {
		return Permanent
	}
	if errors.Is(err, context.Canceled) {
		return Unavailable
	}
	return Transient
}

// ReasonOf returns the reason of a permanent error: the one it was marked with, "malformed"
// for an [*InvalidError], else "rejected".
func ReasonOf(err error) Reason {
	var k *kindError
	if errors.As(err, &k) && k.reason != "" {
		return k.reason
	}
	var invalid *InvalidError
	if errors.As(err, &invalid) {
		return ReasonMalformed
	}
	return ReasonRejected
}

// AfterOf returns the wait that [RetryAfter] attached to err, and whether there is one.
func AfterOf(err error) (time.Duration, bool) {
	var k *kindError
	if errors.As(err, &k) && k.after > 0 {
		return k.after, true
	}
	return 0, false
}

// IsPermanent reports whether err is permanent.
func IsPermanent(err error) bool { return err != nil && KindOf(err) == Permanent }

// IsUnavailable reports whether err is unavailable.
func IsUnavailable(err error) bool { return err != nil && KindOf(err) == Unavailable }

// IsConflict reports whether err is a conflict.
func IsConflict(err error) bool { return err != nil && KindOf(err) == Conflict }

// IsTransient reports whether err is transient.
func IsTransient(err error) bool { return err != nil && KindOf(err) == Transient }

// StalledError reports a background loop whose last success is too long ago. The Health
// methods of relays, consumers and services return it, perhaps joined with others.
type StalledError struct {
	Loop string        // its name
	Age  time.Duration // since its last success, or since its start; 0 if it never ran
	Err  error         // why the last round failed; nil if it never ran or is running
}

// Error names the loop and says what is wrong.
func (e *StalledError) Error() string {
	switch {
	case e.Age == 0:
		return e.Loop + " is not running"
	case e.Err == nil:
		return fmt.Sprintf("%s had its last success %v ago: a round is still running", e.Loop, e.Age.Round(time.Millisecond))
	}
	return fmt.Sprintf("%s had its last success %v ago: %v", e.Loop, e.Age.Round(time.Millisecond), e.Err)
}

// Unwrap returns why the last round failed.
func (e *StalledError) Unwrap() error { return e.Err }
