package sqlstore

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/janitor"
)

// Cleanup are the statements of the janitor.
type Cleanup struct {
	// Lock returns whether this transaction is the only janitor's that is after such rows. It
	// is empty if writers are one at a time anyway. Each kind has a lock of its own: who finds
	// it taken knows that the owner goes on with the same rows.
	Lock map[janitor.Kind]string

	// Count and Purge take the milliseconds of the retention and a tenant or ""; Purge takes
	// the limit behind these. Purge has none for letters: ExpiredLetters, with the same
	// arguments, returns numbers of letters and keeps others from changing them, PurgeRecords
	// and PurgeLetters take the numbers, and NoteCleanup a text for the audit log.
	Count, Purge                                            map[janitor.Kind]string
	ExpiredLetters, PurgeRecords, PurgeLetters, NoteCleanup string
}

// CountExpired implements [janitor.Store].
func (c *Core[Tx]) CountExpired(ctx context.Context, rows janitor.Rows) (int64, error) {
	stmt, ok := c.SQL.Cleanup.Count[rows.Kind]
	if !ok {
		return 0, unknownRows(rows.Kind)
	}
	result, err := c.DB.Query(ctx, stmt, Millis(rows.OlderThan), rows.Tenant)
	n, _, err := sqldb.One(result, err, sqldb.Scan[int64])
	return n, c.Kind(err)
}

// PurgeExpired implements [janitor.Store].
func (c *Core[Tx]) PurgeExpired(ctx context.Context, rows janitor.Rows, limit int) (n int64, err error) {
	stmt, ok := c.SQL.Cleanup.Purge[rows.Kind]
	if !ok && rows.Kind != janitor.Letters {
		return 0, unknownRows(rows.Kind)
	}
	err = c.InTx(ctx, func(_ Tx, conn sqldb.Conn) (err error) {
		if err := c.lockJanitor(ctx, conn, rows.Kind); err != nil {
			return err
		}
		args := []any{Millis(rows.OlderThan), rows.Tenant, limit}
		if rows.Kind == janitor.Letters {
			n, err = c.purgeLetters(ctx, conn, args)
		} else {
			n, err = conn.Exec(ctx, stmt, args...)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

func unknownRows(kind janitor.Kind) error {
	return fmt.Errorf("there are no rows of the kind %q to remove", kind)
}

func (c *Core[Tx]) lockJanitor(ctx context.Context, conn sqldb.Conn, kind janitor.Kind) error {
	lock := c.SQL.Cleanup.Lock[kind]
	if lock == "" {
		return nil
	}
	rows, err := conn.Query(ctx, lock)
	mine, _, err := sqldb.One(rows, err, sqldb.Scan[bool])
	if err == nil && !mine {
		return janitor.ErrBusy
	}
	return err
}

// purgeLetters looks again for what waits behind a letter once nobody can put anything there
// any more.
func (c *Core[Tx]) purgeLetters(ctx context.Context, conn sqldb.Conn, args []any) (int64, error) {
	rows, err := conn.Query(ctx, c.SQL.Cleanup.ExpiredLetters, args...)
	numbers, err := sqldb.Collect(rows, err, sqldb.Scan[int64])
	if err != nil || len(numbers) == 0 {
		return 0, err
	}
	if _, err := conn.Exec(ctx, c.SQL.Cleanup.PurgeRecords, numbers); err != nil {
		return 0, err
	}
	n, err := conn.Exec(ctx, c.SQL.Cleanup.PurgeLetters, numbers)
	if err == nil && n > 0 {
		_, err = conn.Exec(ctx, c.SQL.Cleanup.NoteCleanup, fmt.Sprintf("%d letters", n))
	}
	return n, err
}
