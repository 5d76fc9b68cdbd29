package contract

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
)

// Batcher processes many messages in one transaction. Stores may implement it; it is safe
// for concurrent use.
type Batcher[Tx any] interface {
	// ProcessBatch begins a transaction, inserts all records in it with one statement, runs fn with the
	// indexes in recs of the new ones, ascending, and commits. It does not run fn if none is new. The
	// keys of recs must differ. Without an error it returns an outcome for
	// each record; after an error none of them is processed, and the kind of the error is as
	// [inbox.Once] says. fn must not commit or roll back tx.
	ProcessBatch(ctx context.Context, recs []inbox.Record, fn func(ctx context.Context, tx Tx, fresh []int) error) ([]inbox.Outcome, error)
}

// MaxBatch is how many records a batch may have.
const MaxBatch = 1000

// ValidateBatch returns an [*waybill.InvalidError] unless a batch may hold the records: too
// many, two with one key, or one with a position, which a batch does not move.
func ValidateBatch(recs []inbox.Record) error {
	if len(recs) > MaxBatch {
		return &waybill.InvalidError{Field: "recs", Reason: fmt.Sprintf("has %d records, the limit is %d", len(recs), MaxBatch)}
	}
	first := make(map[inbox.Key]int, len(recs))
	for i := range recs {
		if j, ok := first[recs[i].Key]; ok {
			return &waybill.InvalidError{Field: fmt.Sprintf("recs[%d].Key", i), Reason: fmt.Sprintf("is the key of recs[%d] too", j)}
		}
		if recs[i].At != nil {
			return &waybill.InvalidError{Field: fmt.Sprintf("recs[%d].At", i), Reason: "is set; messages with a position are processed one by one"}
		}
		first[recs[i].Key] = i
	}
	return nil
}
