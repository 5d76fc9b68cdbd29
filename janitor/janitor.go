// Package janitor removes what a store need not keep any longer: inbox records, the attempts at
// messages that were never redelivered, keys of the lease contract, dead letters, sagas that have ended,
// the audit log and stored responses to HTTP requests.
//
// Only what is finished is removed, and only when it is past its retention: never a message that is
// pending, waiting or scheduled, never a leased key, never a dead letter that is requeued or that
// messages wait behind, never a saga that has not ended. Relays clean up the outbox archive; a
// janitor does so only if it is configured to.
package janitor

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill/contract"
)

// Kind is a kind of rows, named after the table that holds them.
type Kind string

const (
	Inbox     Kind = "inbox"                 // records of processed messages; those of dead letters go with the letter
	Attempts  Kind = "consumer_attempts"     // failed attempts at messages that were not redelivered
	Leases    Kind = "inbox_leases"          // keys of the lease contract that are processed or no longer leased
	Letters   Kind = "dead_letters"          // with their inbox records
	Sagas     Kind = "sagas"                 // instances that have ended, and their logs; none where the store keeps no sagas
	Audit     Kind = "audit_log"             // entries
	Responses Kind = "idempotency_responses" // stored responses to HTTP requests that have expired
	Archive   Kind = "outbox_archive"        // not removed by a [Store]: see [Archiver]
)

// Rows says which rows are past their retention.
type Rows struct {
	Kind Kind

	// OlderThan is how long ago, by the store's clock, a message was processed, its next
	// attempt was due, its letter failed for the last time or was settled, a key was leased,
	// renewed, released or processed for the last time, a saga has ended, an entry was written,
	// or a response has expired. It must be positive.
	OlderThan time.Duration

	// Tenant limits it to the rows of one tenant. Optional; the default is all tenants. The audit log,
	// leases and responses belong to no tenant.
	Tenant string
}

// Store is a store that a janitor cleans up. Stores implement it; both methods are safe for
// concurrent use.
type Store interface {
	// CountExpired returns how many rows there are to remove. It changes nothing.
	CountExpired(ctx context.Context, rows Rows) (int64, error)

	// PurgeExpired removes up to limit such rows in one transaction and returns how many.
	// Fewer than limit means that there are no more, except those that other transactions have locked:
	// these are left out, not waited for. Of several concurrent calls for one kind one does the work;
	// the others return [ErrBusy]. Removed letters leave an entry in the audit log.
	PurgeExpired(ctx context.Context, rows Rows, limit int) (int64, error)
}

// Archiver is a store with an archive of published messages, as every [contract.Source] is.
type Archiver interface {
	// MaintainArchive is as for a [contract.Source].
	MaintainArchive(ctx context.Context, req contract.MaintainRequest) (contract.Maintained, error)
}

// folder is a store that counts its dead letters in a roll-up.
type folder interface {
	// FoldDeadLetters updates the roll-up.
	FoldDeadLetters(ctx context.Context) error
}

// ErrBusy reports that another janitor is at work on the same kind of rows. Nothing was removed; the other
// janitor does the work.
var ErrBusy = errors.New("janitor: another one is at work")
