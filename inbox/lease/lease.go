package lease

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waybill-go/waybill"
)

// The limits of the contract.
const (
	MaxKeyLen       = 512 // Request.Key, in bytes
	MaxOwnerLen     = 255 // Request.Owner, in bytes
	MaxRequestIDLen = 64  // Request.RequestID, in bytes
	MinRequestIDLen = 16
	MaxPayloadHash  = 64             // Request.PayloadHash, in bytes
	MaxTTL          = 24 * time.Hour // Request.TTL
	MinTTL          = time.Millisecond
)

// Status is the answer of a lease store. The texts are those of the HTTP inbox service.
type Status string

const (
	Acquired  Status = "Acquired"  // the key is the caller's until the lease ends
	Busy      Status = "Busy"      // somebody else has leased it
	Exhausted Status = "Exhausted" // it was acquired as often as the caller allows; nobody has it
	Processed Status = "Processed" // it was processed; kept for the store's retention
	Released  Status = "Released"  // its holder has released it; it can be acquired again
	Expired   Status = "Expired"   // its lease has ended without a release; it can be acquired again
	Lost      Status = "LeaseLost" // somebody else has acquired it since
	Unknown   Status = "Unknown"   // the store knows nothing of the key
)

// Request asks for the lease of a key.
type Request struct {
	// Key identifies what must be processed once. 1 to [MaxKeyLen] bytes of UTF-8 without NUL;
	// [Key] builds one from the parts of a message. Required.
	Key string

	// Owner says who asks, for people. At most [MaxOwnerLen] bytes of UTF-8 without NUL.
	// Optional.
	Owner string

	// TTL is how long the lease lasts unless it is renewed, [MinTTL] to [MaxTTL].
	// Required.
	TTL time.Duration

	// MaxAttempts is the number of counted attempts after which the answer is [Exhausted] where it
	// would be [Acquired]. So a key that was released with a wait is [Busy] until that is over, even if
	// no attempt is left. Optional; 0 means that there is no limit.
	MaxAttempts int

	// RequestID becomes the id of the lease, so that a request whose answer was lost can be
	// repeated: while the lease lasts, a request with its id is answered with that lease, as
	// the same attempt, and changes nothing. Once it was released or has expired, the request is
	// treated as a new one. A caller that stops without an answer may release the lease by this id.
	//
	// All requests with the same id share the lease, so draw one with [NewID] for each request and its
	// repetitions. [MinRequestIDLen] to [MaxRequestIDLen] visible ASCII characters. Optional;
	// without it a repetition finds the key busy until the lost lease ends.
	RequestID string

	// PayloadHash identifies the payload of the key: a request for a key that was processed with
	// another payload is answered with Conflict set. [inbox.Record].PayloadHash is suitable. The store
	// keeps the hash of the request that acquired the key last. At most [MaxPayloadHash] visible
	// ASCII characters. Optional; without it payloads are not compared.
	PayloadHash string
}

// LeaseID returns the id for a lease that the request acquires: the RequestID, or a new one.
func (r *Request) LeaseID() string {
	if r.RequestID != "" {
		return r.RequestID
	}
	return NewID()
}

// Conflicts reports whether a key was processed with a payload other than the request's, given the
// hash of the processed one, "" if not known.
func (r *Request) Conflicts(processed string) bool {
	return processed != "" && r.PayloadHash != "" && processed != r.PayloadHash
}

// Validate returns an [*waybill.InvalidError] that names the first field that is wrong, or
// nil. Stores call it before anything is stored.
func (r *Request) Validate() error {
	if err := ValidateKey(r.Key); err != nil {
		return err
	}
	switch {
	case len(r.Owner) > MaxOwnerLen:
		return invalidLease("Owner", "has %d bytes, the limit is %d", len(r.Owner), MaxOwnerLen)
	case !isText(r.Owner):
		return invalidLease("Owner", "is not UTF-8 text, or holds a NUL")
	case r.MaxAttempts < 0:
		return invalidLease("MaxAttempts", "is %d; it must not be negative", r.MaxAttempts)
	case r.RequestID != "" && (len(r.RequestID) < MinRequestIDLen || len(r.RequestID) > MaxRequestIDLen):
		return invalidLease("RequestID", "has %d bytes, the range is %d to %d", len(r.RequestID), MinRequestIDLen, MaxRequestIDLen)
	case !isVisibleASCII(r.RequestID):
		return invalidLease("RequestID", "holds something else than visible ASCII characters")
	case len(r.PayloadHash) > MaxPayloadHash:
		return invalidLease("PayloadHash", "has %d bytes, the limit is %d", len(r.PayloadHash), MaxPayloadHash)
	case !isVisibleASCII(r.PayloadHash):
		return invalidLease("PayloadHash", "holds something else than visible ASCII characters")
	}
	return ValidateTTL(r.TTL)
}

// ValidateKey returns an [*waybill.InvalidError] unless key can be stored.
func ValidateKey(key string) error {
	switch {
	case key == "":
		return invalidLease("Key", "is required")
	case len(key) > MaxKeyLen:
		return invalidLease("Key", "has %d bytes, the limit is %d", len(key), MaxKeyLen)
	case !isText(key):
		return invalidLease("Key", "is not UTF-8 text, or holds a NUL")
	}
	return nil
}

// ValidateTTL returns an [*waybill.InvalidError] unless a lease may last for ttl.
func ValidateTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return invalidLease("TTL", "is %v, the range is %v to %v", ttl, MinTTL, MaxTTL)
	}
	return nil
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

func isVisibleASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

func invalidLease(field, format string, args ...any) error {
	return &waybill.InvalidError{Field: "lease.Request." + field, Reason: fmt.Sprintf(format, args...)}
}

// Lease names the right to process a key.
type Lease struct {
	Key string
	ID  string // drawn each time the key is acquired, or the RequestID

	// Token is a fencing token that rises by one each time the key is acquired. The holder can pass it
	// along with what it writes elsewhere, so that a resource which has seen a higher one refuses a
	// holder that was taken for dead. Stores ignore it.
	Token int64
}

// Release says how a key is released.
type Release struct {
	// Uncounted says that the attempt does not count.
	Uncounted bool

	// Wait is how long nobody may acquire the key, the caller included: until then it is [Busy]. So no
	// consumer can start a retry early. 0 to [MaxTTL].
	Wait time.Duration
}

// Validate returns an [*waybill.InvalidError] if a key can't be released in this way. Stores
// call it before anything is changed.
func (r Release) Validate() error {
	if r.Wait < 0 || r.Wait > MaxTTL {
		return &waybill.InvalidError{Field: "Release.Wait", Reason: fmt.Sprintf("is %v, the range is 0 to %v", r.Wait, MaxTTL)}
	}
	return nil
}

// NewID returns an id for a lease: 26 letters and digits, random.
func NewID() string { return rand.Text() }

// Answer is the result of a [Request], or of a renewal.
type Answer struct {
	Status Status

	// LeaseID and Token are set if the status is [Acquired].
	LeaseID string
	Token   int64

	// Attempts is the number of counted attempts at the key, including the one just acquired.
	// It is 0 for [Lost] and [Unknown].
	Attempts int

	// ExpiresAt is when the lease ends, by the store's clock, and Remaining how long that is from when
	// the store answered: the caller's lease if the status is [Acquired], the holder's if it is [Busy],
	// or the rest of the wait of a key that was released with one. Zero otherwise.
	ExpiresAt time.Time
	Remaining time.Duration

	// Conflict is true if the status is [Processed] and the key was processed with another payload:
	// both hashes are known and differ.
	Conflict bool
}

// Record is what a store knows of a key.
type Record struct {
	// Status is [Busy] while the key is leased, [Expired] once that lease has ended, until the key is
	// acquired again, [Released] if its holder has released it, [Processed], or [Unknown] if nothing is
	// stored; the other fields are zero then.
	Status Status

	Owner     string // Owner of the request that acquired it last
	Token     int64  // of the last lease
	Attempts  int    // counted ones
	FirstSeen time.Time
	// LastSeen is when the key was last acquired, renewed, released or processed. A request that is
	// answered Busy, Processed or Exhausted does not change it: such answers write nothing, and the
	// retention of a processed key counts from LastSeen.
	LastSeen time.Time
	// LeaseUntil is when the lease ends or has ended. It is zero once the key is released or
	// processed.
	LeaseUntil time.Time
	// DueAt is when a key that was released with a wait may be acquired again, possibly in the past;
	// zero without a wait, and once the key is acquired or processed.
	DueAt       time.Time
	PayloadHash string // of the request that acquired it last
}

// Store processes messages once where handler and record cannot share a transaction. A key is
// leased, the handler runs, the key is marked: a handler whose process dies in between runs again
// once the lease has ended. So it narrows the window in which an effect can happen twice, but does
// not close it; where handler and record can share a transaction, use package inbox.
//
// Each call is atomic, uses the store's clock, and may be repeated. All methods are safe for
// concurrent use. An error is an [*waybill.InvalidError] if the request is invalid, and unavailable
// if the store does not answer; the call may have taken effect then. Processed keys are kept for
// the store's retention.
type Store interface {
	// TryBegin leases a key to the caller, unless it is leased or processed, or waits since it was
	// released. An expired lease is taken over. Each lease counts as an attempt. A request that is
	// repeated with its RequestID gets the lease that it has. The answer is
	// [Acquired], [Busy], [Processed] or [Exhausted].
	TryBegin(ctx context.Context, req Request) (Answer, error)

	// RenewLease makes a lease end ttl from now, even an expired one, unless somebody else has acquired
	// the key since. The answer is [Acquired], or, without effect, [Lost], [Released] if the caller has
	// released it, [Processed] if the caller has marked it, or [Unknown].
	RenewLease(ctx context.Context, l Lease, ttl time.Duration) (Answer, error)

	// MarkProcessed marks the key as processed, even if the lease has expired, unless somebody else has
	// acquired the key since. The answer is [Processed], again if the caller has
	// marked it before; or, without effect, [Lost], [Released] if the caller has
	// released it, or [Unknown].
	MarkProcessed(ctx context.Context, l Lease) (Status, error)

	// ReleaseLease releases the key, so that anybody may acquire it after r.Wait. The answer is
	// [Released], again if the caller has released it before, which counts nothing and
	// prolongs no wait a second time; or, without effect, [Processed] if the caller has
	// marked it, [Lost] or [Unknown].
	ReleaseLease(ctx context.Context, l Lease, r Release) (Status, error)

	// ReadLease returns what the store knows of a key. It changes nothing.
	ReadLease(ctx context.Context, key string) (Record, error)

	// PurgeLeases removes up to limit keys that were processed longer ago than retention, or that were
	// last seen longer ago, are not leased and do not wait, and returns how many. Call again until it
	// returns less than limit. A store that lets keys expire by itself removes none.
	PurgeLeases(ctx context.Context, retention time.Duration, limit int) (int, error)
}

// BatchStore is a [Store] that serves many keys in one round trip. Each key is served
// independently: the answer for one says nothing about the others, but after an error any of them
// may have taken effect.
type BatchStore interface {
	Store

	// TryBeginAll is TryBegin for each request, answered in their order. The keys must
	// differ. At most [MaxBatch]. No requests give no answers.
	TryBeginAll(ctx context.Context, reqs []Request) ([]Answer, error)

	// MarkAllProcessed is MarkProcessed for each lease, answered in their order. The keys
	// must differ. At most [MaxBatch]. No leases give no answers.
	MarkAllProcessed(ctx context.Context, leases []Lease) ([]Status, error)
}

// MaxBatch is how many keys a batch may have.
const MaxBatch = 1000

// ValidateBatch returns an [*waybill.InvalidError] unless a batch may hold the keys: too
// many, or one of them twice.
func ValidateBatch(keys []string) error {
	if len(keys) > MaxBatch {
		return &waybill.InvalidError{Field: "batch", Reason: fmt.Sprintf("has %d keys, the limit is %d", len(keys), MaxBatch)}
	}
	seen := make(map[string]bool, len(keys))
	for i, key := range keys {
		if seen[key] {
			return &waybill.InvalidError{Field: fmt.Sprintf("batch[%d].Key", i), Reason: "is in the batch twice"}
		}
		seen[key] = true
	}
	return nil
}

type leaseKey struct{}

// NewContext returns a context that carries the lease under which a handler runs.
func NewContext(ctx context.Context, l Lease) context.Context {
	return context.WithValue(ctx, leaseKey{}, l)
}

// FromContext returns the lease under which a handler runs, and false if it runs under none.
func FromContext(ctx context.Context) (Lease, bool) {
	l, ok := ctx.Value(leaseKey{}).(Lease)
	return l, ok
}
