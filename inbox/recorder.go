package inbox

import (
	"context"
	"time"
)

// StoredRecord is a record as an inbox holds it.
type StoredRecord struct {
	Record
	ProcessedAt time.Time
	Dead        bool // it stands for a dead letter
}

// Recorder writes and reads the records of an inbox in the caller's transaction, for programs that
// process messages by themselves. Stores may implement it; it is safe for concurrent use as far
// as tx is. If tx is nil the error is an [*waybill.InvalidError] about the field tx.
type Recorder[Tx any] interface {
	// AddRecord inserts rec in tx. It returns false if there is a record with its key: what
	// the caller has done in tx must be rolled back then. If another transaction holds an
	// uncommitted record with the key it waits for the outcome.
	AddRecord(ctx context.Context, tx Tx, rec Record) (bool, error)

	// FindRecord returns the record with the given key, as tx sees it, and false if there is
	// none.
	FindRecord(ctx context.Context, tx Tx, key Key) (StoredRecord, bool, error)

	// RemoveRecords removes up to limit records of the tenant that are older than the given
	// age, and returns how many. It does not touch those of dead letters that are still kept.
	RemoveRecords(ctx context.Context, tx Tx, tenant string, age time.Duration, limit int) (int, error)
}
