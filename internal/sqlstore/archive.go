package sqlstore

import (
	"context"
	"time"

	"github.com/waybill-go/waybill/internal/loop"
)

// PurgeAll calls purge, which deletes up to batch rows and returns their number, until there is
// nothing left to delete, and returns the number of deleted rows. It pauses for at least half of
// the time, for others.
func PurgeAll(ctx context.Context, batch int, purge func() (int64, error)) (total int64, err error) {
	for {
		began := time.Now()
		n, err := purge()
		if err != nil {
			return total, err
		}
		total += n
		if n == 0 || n < int64(batch) {
			return total, nil
		}
		loop.Sleep(ctx, time.Since(began))
	}
}
