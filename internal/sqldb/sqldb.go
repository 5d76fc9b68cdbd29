// Package sqldb defines the little that the SQL stores need of a database, so that one store works
// with both database/sql and a native driver.
package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"

	"github.com/waybill-go/waybill"
)

// Conn runs statements: a pool, or one transaction.
type Conn interface {
	// Exec runs a statement and returns the number of rows that it changed.
	Exec(ctx context.Context, query string, args ...any) (int64, error)

	// Query runs a statement that returns rows. The caller must close them.
	Query(ctx context.Context, query string, args ...any) (Rows, error)
}

// Rows is a result that is being read.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close()
}

// Driver is a database with transactions of type Tx.
type Driver[Tx any] interface {
	Conn

	// Begin starts a transaction with the isolation level of the store's choice.
	Begin(ctx context.Context) (Tx, error)
	Commit(ctx context.Context, tx Tx) error

	// CommitAfter commits when last has run its statement, one or none, on the Conn that it is
	// given. A driver may send COMMIT along with that statement. After an error the transaction
	// must be rolled back.
	CommitAfter(ctx context.Context, tx Tx, last func(conn Conn) error) error

	// Rollback ends the transaction unless it has ended. The error is that of a lost
	// connection.
	Rollback(tx Tx) error

	// On returns the Conn that runs statements in tx, and [NoTx] if tx is nil.
	On(tx Tx) Conn
}

// Opener is a [Driver] that can send the first statement of a transaction along with what
// begins it. Drivers may implement it.
type Opener[Tx any] interface {
	// BeginWith starts a transaction as Begin does, with first, which runs one statement on
	// the Conn that it is given. After an error there is no transaction.
	BeginWith(ctx context.Context, first func(conn Conn) error) (Tx, error)
}

// InTx runs fn in a transaction and commits it, or rolls it back if fn fails or panics. An error of
// fn comes back as it is, but as unavailable if the connection was lost.
func InTx[Tx any](ctx context.Context, d Driver[Tx], fn func(tx Tx) error) error {
	return inTx(d, beginner(ctx, d), fn, func(tx Tx) error {
		if err := d.Commit(ctx, tx); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		return nil
	})
}

// InTxBefore is InTx with one more statement, that of last, before the commit.
func InTxBefore[Tx any](ctx context.Context, d Driver[Tx], fn func(tx Tx) error, last func(conn Conn) error) error {
	return inTx(d, beginner(ctx, d), fn, func(tx Tx) error { return d.CommitAfter(ctx, tx, last) })
}

// InTxBetween is InTxBefore with one more statement, that of first, before fn.
func InTxBetween[Tx any](ctx context.Context, d Driver[Tx], first func(conn Conn) error, fn func(tx Tx) error, last func(conn Conn) error) error {
	commit := func(tx Tx) error { return d.CommitAfter(ctx, tx, last) }
	if o, ok := d.(Opener[Tx]); ok {
		return inTx(d, func() (Tx, error) { return o.BeginWith(ctx, first) }, fn, commit)
	}
	return inTx(d, beginner(ctx, d), func(tx Tx) error {
		if err := first(d.On(tx)); err != nil {
			return err
		}
		return fn(tx)
	}, commit)
}

func beginner[Tx any](ctx context.Context, d Driver[Tx]) func() (Tx, error) {
	return func() (tx Tx, err error) {
		if tx, err = d.Begin(ctx); err != nil {
			err = fmt.Errorf("begin: %w", err)
		}
		return tx, err
	}
}

func inTx[Tx any](d Driver[Tx], begin func() (Tx, error), fn, commit func(tx Tx) error) (err error) {
	tx, err := begin()
	if err != nil {
		return err
	}
	returned := false
	defer func() {
		if !returned { // fn panicked, and the panic goes on
			_ = d.Rollback(tx) // the connection may be gone, and the transaction with it
		}
	}()
	if err = fn(tx); err == nil {
		err = commit(tx)
	}
	returned = true
	if err == nil {
		return nil
	}
	if d.Rollback(tx) != nil {
		return Lost(err)
	}
	return err
}

// Lost returns the error of a transaction whose connection was lost: err as unavailable, unless a
// context has ended, which closes the connection and says nothing about the database.
func Lost(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	return waybill.UnavailableError(&lostError{err})
}

type lostError struct{ cause error }

func (e *lostError) Error() string { return "connection lost: " + e.cause.Error() }
func (e *lostError) Unwrap() error { return e.cause }

// Found returns the error that [Lost] was given, and true; err itself and false if Lost did not
// return it.
func Found(err error) (cause error, lost bool) {
	var l *lostError
	if !errors.As(err, &l) {
		return err, false
	}
	return l.cause, true
}

// Collect reads all rows with scan and closes them.
func Collect[T any](rows Rows, err error, scan func(Rows) (T, error)) ([]T, error) {
	return CollectInto([]T{}, rows, err, scan)
}

// CollectInto is [Collect] with a list to append to.
func CollectInto[T any](list []T, rows Rows, err error, scan func(Rows) (T, error)) ([]T, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, rows.Err()
}

// One reads the only row of a result with scan. found is false if there is none.
func One[T any](rows Rows, err error, scan func(Rows) (T, error)) (v T, found bool, _ error) {
	list, err := Collect(rows, err, scan)
	if err != nil || len(list) == 0 {
		return v, false, err
	}
	return list[0], true, nil
}

// Scan returns a scan function for a single column.
func Scan[T any](rows Rows) (v T, err error) {
	err = rows.Scan(&v)
	return v, err
}

// DB is the Driver for database/sql.
type DB struct {
	*sql.DB
	Isolation sql.IsolationLevel
	Encode    func(arg any) any // turns an argument into what the driver takes; nil for none
	Prepared  *Prepared         // nil if statements are sent as text
}

var _ Driver[*sql.Tx] = (*DB)(nil)

// execer is what *sql.DB and *sql.Tx have in common.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

type sqlConn struct {
	*DB
	on execer
}

func (d *DB) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	return sqlConn{d, d.DB}.Exec(ctx, query, args...)
}

func (d *DB) Query(ctx context.Context, query string, args ...any) (Rows, error) {
	return sqlConn{d, d.DB}.Query(ctx, query, args...)
}

func (d *DB) On(tx *sql.Tx) Conn {
	if tx == nil {
		return NoTx{}
	}
	return sqlConn{d, tx}
}

func (d *DB) Begin(ctx context.Context) (*sql.Tx, error) {
	if d.Prepared != nil {
		d.Prepared.prepare(ctx, d.DB)
	}
	return d.BeginTx(ctx, &sql.TxOptions{Isolation: d.Isolation})
}

func (d *DB) Commit(_ context.Context, tx *sql.Tx) error { return tx.Commit() }

// CommitAfter takes two round trips: database/sql has no way to send two statements at once.
func (d *DB) CommitAfter(_ context.Context, tx *sql.Tx, last func(conn Conn) error) error {
	if err := last(d.On(tx)); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func (d *DB) Rollback(tx *sql.Tx) error {
	if err := tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

func (c sqlConn) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	args = c.encoded(args)
	result, err := c.prepared(ctx, query).ExecContext(ctx, query, args...)
	runtime.KeepAlive(c.Prepared) // the statement is closed with it
	if elsewhere(err) {
		result, err = c.on.ExecContext(ctx, query, args...)
	}
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (c sqlConn) Query(ctx context.Context, query string, args ...any) (Rows, error) {
	args = c.encoded(args)
	rows, err := c.prepared(ctx, query).QueryContext(ctx, query, args...)
	runtime.KeepAlive(c.Prepared) // the statement is closed with it, except for open rows
	if elsewhere(err) {
		rows, err = c.on.QueryContext(ctx, query, args...)
	}
	if err != nil {
		return nil, err
	}
	return sqlRows{rows}, nil
}

// prepared returns an execer for a statement and its text: it is sent as text unless it is
// prepared.
func (c sqlConn) prepared(ctx context.Context, query string) execer {
	if c.Prepared == nil {
		return c.on
	}
	s := c.Prepared.statement(query)
	if s == nil {
		return c.on
	}
	if tx, ok := c.on.(*sql.Tx); ok {
		s = tx.StmtContext(ctx, s)
	}
	return prepared{s}
}

func (c sqlConn) encoded(args []any) []any {
	if c.Encode == nil {
		return args
	}
	out := make([]any, len(args))
	for i, a := range args {
		out[i] = c.Encode(a)
	}
	return out
}

type sqlRows struct{ *sql.Rows }

func (r sqlRows) Close() { _ = r.Rows.Close() } // Err has been asked
