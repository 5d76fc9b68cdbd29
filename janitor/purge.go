package janitor

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/loop"
)

// Purged is the result of removing rows past their retention.
type Purged struct {
	Candidates int64 // found when it began
	Deleted    int64
	Batches    int  // transactions that removed something
	Busy       bool // another janitor was at work; the rest was left to it
}

// Purge removes rows in batches of batchSize, and pauses between two of them for as long as
// the last one took, so that it uses the store for at most half of the time. The result says what
// was done, even if there is an error.
func Purge(ctx context.Context, store Store, rows Rows, batchSize int) (Purged, error) {
	done, err := Count(ctx, store, rows)
	for err == nil && done.Candidates > 0 {
		began := time.Now()
		n, err := purgeOnce(ctx, store, rows, batchSize)
		switch {
		case errors.Is(err, ErrBusy):
			done.Busy = true
			return done, nil
		case err != nil:
			return done, err
		case n > 0:
			done.Deleted += n
			done.Batches++
		}
		if n < int64(batchSize) {
			return done, nil
		}
		loop.Sleep(ctx, time.Since(began))
	}
	return done, err
}

// callTimeout is how long a call to the store may take: a call that is not answered by then is
// repeated over another connection.
const callTimeout = 5 * time.Minute

func purgeOnce(ctx context.Context, store Store, rows Rows, limit int) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return store.PurgeExpired(ctx, rows, limit)
}

// Count counts what [Purge] would remove, and removes nothing.
func Count(ctx context.Context, store Store, rows Rows) (done Purged, err error) {
	if rows.OlderThan <= 0 {
		return done, &waybill.InvalidError{Field: "janitor.Rows.OlderThan", Reason: "must be positive"}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	done.Candidates, err = store.CountExpired(ctx, rows)
	return done, err
}

// PurgeInbox removes the records of messages that one tenant's consumers processed longer
// than olderThan ago, and returns how many. It touches no other tenant's. What it removes is
// processed again if it is delivered again, so olderThan should be no less than the redelivery
// horizon, see package consumer/retention. tenant is required.
func PurgeInbox(ctx context.Context, store Store, tenant string, olderThan time.Duration) (int64, error) {
	if tenant == "" {
		return 0, &waybill.InvalidError{Field: "tenant", Reason: "is required"}
	}
	done, err := Purge(ctx, store, Rows{Kind: Inbox, OlderThan: olderThan, Tenant: tenant}, defaultBatchSize)
	return done.Deleted, err
}
