package sqlstore

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/janitor"
)

// Cleanup are the statements of the janitor.
type Cleanup struct {
	// Lock returns whether this transaction is the only one that removes such rows. It is empty if
	// there is only one writer anyway. Each kind has its own lock: if it is taken, its owner is
	// removing the same rows.
	Lock byEveryKind `sql:"lock_,optional"`

	// Count and Purge take the milliseconds of the retention and a tenant or ""; Purge takes the
	// limit after these. Purge has none for dead letters: ExpiredLetters, with the same arguments,
	// returns numbers of dead letters and keeps others from changing them, PurgeRecords and
	// PurgeLetters take the numbers, and NoteCleanup a text for the audit log.
	Count                                                   byEveryKind `sql:"count_"`
	Purge                                                   byKind      `sql:"purge_"`
	ExpiredLetters, PurgeRecords, PurgeLetters, NoteCleanup string

	// Purge has none for sagas either: ExpiredSagas, with the same arguments, returns numbers of
	// instances and keeps others from changing them, the others take the numbers.
	ExpiredSagas, PurgeSagaLog, PurgeSagas string
}

// byKind has a statement for each kind of rows that one statement removes.
type byKind struct{ Inbox, Attempts, Leases, Audit, Responses string }

// of returns the statement for a kind, "" if there is none.
func (s byKind) of(kind janitor.Kind) string {
	switch kind {
	case janitor.Inbox:
		return s.Inbox
	case janitor.Attempts:
		return s.Attempts
	case janitor.Leases:
		return s.Leases
	case janitor.Audit:
		return s.Audit
	case janitor.Responses:
		return s.Responses
	}
	return ""
}

// byEveryKind has one for dead letters and sagas, too.
type byEveryKind struct {
	byKind
	Letters, Sagas string
}

func (s byEveryKind) of(kind janitor.Kind) string {
	switch kind {
	case janitor.Letters:
		return s.Letters
	case janitor.Sagas:
		return s.Sagas
	}
	return s.byKind.of(kind)
}

// CountExpired implements [janitor.Store].
func (c *Core[Tx]) CountExpired(ctx context.Context, rows janitor.Rows) (int64, error) {
	stmt := c.SQL.Cleanup.Count.of(rows.Kind)
	if stmt == "" {
		return 0, unknownRows(rows.Kind)
	}
	result, err := c.DB.Query(ctx, stmt, Millis(rows.OlderThan), rows.Tenant)
	n, _, err := sqldb.One(result, err, sqldb.Scan[int64])
	return n, c.Kind(err)
}

// PurgeExpired implements [janitor.Store].
func (c *Core[Tx]) PurgeExpired(ctx context.Context, rows janitor.Rows, limit int) (n int64, err error) {
	purge := c.purgeOf(rows.Kind)
	if purge == nil {
		return 0, unknownRows(rows.Kind)
	}
	err = c.InTx(ctx, func(_ Tx, conn sqldb.Conn) (err error) {
		if err := c.lockJanitor(ctx, conn, rows.Kind); err != nil {
			return err
		}
		n, err = purge(ctx, conn, []any{Millis(rows.OlderThan), rows.Tenant, limit})
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// purgeOf returns the function that removes rows of a kind, with the arguments of Purge; nil if
// there is none.
func (c *Core[Tx]) purgeOf(kind janitor.Kind) func(ctx context.Context, conn sqldb.Conn, args []any) (int64, error) {
	switch kind {
	case janitor.Letters:
		return c.purgeLetters
	case janitor.Sagas:
		return c.purgeSagas
	}
	stmt := c.SQL.Cleanup.Purge.of(kind)
	if stmt == "" {
		return nil
	}
	return func(ctx context.Context, conn sqldb.Conn, args []any) (int64, error) {
		return conn.Exec(ctx, stmt, args...)
	}
}

func unknownRows(kind janitor.Kind) error {
	return fmt.Errorf("there are no rows of the kind %q to remove", kind)
}

func (c *Core[Tx]) lockJanitor(ctx context.Context, conn sqldb.Conn, kind janitor.Kind) error {
	lock := c.SQL.Cleanup.Lock.of(kind)
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

// purgeLetters looks again for what waits behind a dead letter once nothing can be queued there any
// more.
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

// purgeSagas removes instances with their logs.
func (c *Core[Tx]) purgeSagas(ctx context.Context, conn sqldb.Conn, args []any) (int64, error) {
	rows, err := conn.Query(ctx, c.SQL.Cleanup.ExpiredSagas, args...)
	numbers, err := sqldb.Collect(rows, err, sqldb.Scan[int64])
	if err != nil || len(numbers) == 0 {
		return 0, err
	}
	if _, err := conn.Exec(ctx, c.SQL.Cleanup.PurgeSagaLog, numbers); err != nil {
		return 0, err
	}
	return conn.Exec(ctx, c.SQL.Cleanup.PurgeSagas, numbers)
}
