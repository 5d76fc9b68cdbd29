package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/waybill-go/waybill"
)

// DefaultRetention is how long an inbox remembers what was processed unless the janitor is
// configured otherwise.
const DefaultRetention = 7 * 24 * time.Hour

// Key identifies a message to one consumer. Its parts are stored in separate columns.
type Key struct {
	Tenant   string
	Consumer string // the consumer's stable name (group)
	Source   string // the producing service; ids are unique per source only
	Alias    string // the logical type without its version
	Message  string // the idempotency key, else the message id
}

// KeyOf returns the key of m for the consumer with the given name.
func KeyOf(consumer string, m *waybill.Message) Key {
	tenant := m.Tenant
	if tenant == "" {
		tenant = waybill.DefaultTenant
	}
	return Key{Tenant: tenant, Consumer: consumer, Source: m.Source, Alias: m.Alias(), Message: m.DedupKey()}
}

// Record is what an inbox keeps of a processed message.
type Record struct {
	Key
	MessageID   string
	Type        string
	PayloadHash string          // SHA-256 of the payload's exact bytes, in hex
	Extra       json.RawMessage // a JSON object for the caller's use, or nil

	// Retried says that attempts or starts may be stored; processing then clears them.
	Retried bool

	// At is the position of the message, for an inbox that is a contract.OffsetStore; others ignore it.
	// It is not stored with the record. Optional.
	At *Position
}

// RecordOf returns the record of m for the consumer with the given name.
func RecordOf(consumer string, m *waybill.Message) Record {
	sum := sha256.Sum256(m.Payload)
	return Record{
		Key:         KeyOf(consumer, m),
		MessageID:   m.ID,
		Type:        m.Type,
		PayloadHash: hex.EncodeToString(sum[:]),
	}
}

// Outcome says what an inbox found.
type Outcome int

const (
	Processed Outcome = iota // the function ran and its transaction committed
	Duplicate                // processed before; the function did not run
	Dead                     // a dead letter of this consumer; the function did not run
	Conflict                 // processed before with another payload; the function did not run
)

func (o Outcome) String() string {
	return [...]string{"processed", "duplicate", "dead", "conflict"}[o]
}

// Letter is a message that a consumer dead-letters.
type Letter struct {
	Record   Record // Key.Message is "" if the message has no id; nothing is recorded then
	Message  waybill.Message
	Reason   waybill.Reason
	Error    string // of the last attempt, as by observe.ErrorText
	Attempts int
	Node     string        // of the consumer that made the last attempt
	Took     time.Duration // how long the last attempt took; 0 if it is not known
	Failed   bool          // dead letters are disabled: kept, marked as failed
}

// Once processes messages once per consumer, in transactions of type Tx. The stores implement it, as part of
// contract.Inbox; it is safe for concurrent use.
type Once[Tx any] interface {
	// ProcessOnce begins a transaction, inserts rec in it, runs fn if rec is new, and
	// commits. If another transaction holds an uncommitted record with the same key it waits
	// for the outcome. An error or panic of fn rolls everything back and comes back as it
	// is; clashes with other transactions come back as conflicts, an unreachable database as
	// unavailable. If the session of fn ended while the database is reachable, fn's error keeps its kind; without
	// one the error is transient. fn must not commit or roll back tx. With rec.Retried stored attempts are removed,
	// unless fn fails.
	ProcessOnce(ctx context.Context, rec Record, fn func(ctx context.Context, tx Tx) error) (Outcome, error)
}

// Process runs fn once for m and the consumer with the given name, in a transaction of box.
// It returns true if fn ran and committed, and false if m had been processed before. It is all that
// a program needs that receives messages by itself; package consumer
// adds retries, dead letters and acknowledgement.
//
// A message that was processed with another payload is an error, reason conflict; one
// without ID and IdempotencyKey is an error, reason no_id.
func Process[Tx any](ctx context.Context, box Once[Tx], consumer string, m *waybill.Message, fn func(ctx context.Context, tx Tx) error) (bool, error) {
	if m.DedupKey() == "" {
		return false, waybill.PermanentError(waybill.ReasonNoID, errNoID)
	}
	outcome, err := box.ProcessOnce(ctx, RecordOf(consumer, m), fn)
	if err != nil {
		return false, err
	}
	if outcome == Conflict {
		return false, waybill.PermanentError(waybill.ReasonConflict, errConflict)
	}
	return outcome == Processed, nil
}
