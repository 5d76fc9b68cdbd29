package pgstore

import (
	"context"
	"sync/atomic"

	"github.com/waybill-go/waybill/internal/sqldb"
)

// database is what a store needs of a database.
type database[Tx any] interface {
	sqldb.Driver[Tx]
	sqldb.Opener[Tx]
}

// readCommitted is a driver whose statements run at the isolation level READ COMMITTED: as they are
// where the application's sessions begin with that level, which saves two round trips, else in a
// transaction that sets it. At a higher level they would clash for nothing, and reading would lock
// what it reads.
type readCommitted[Tx any] struct {
	database[Tx]
	sql          *statements
	known, plain atomic.Bool // how sessions begin, once it was asked
}

// isPlain reports whether sessions begin at READ COMMITTED. It asks once.
func (d *readCommitted[Tx]) isPlain(ctx context.Context) (bool, error) {
	if !d.known.Load() {
		rows, err := d.database.Query(ctx, d.sql.DefaultIsolation)
		plain, _, err := sqldb.One(rows, err, sqldb.Scan[bool])
		if err != nil {
			return false, err
		}
		d.plain.Store(plain)
		d.known.Store(true)
	}
	return d.plain.Load(), nil
}

// run runs fn with statements that belong together. In a transaction they may not stay idle for
// long: the client may have vanished without the server noticing.
func (d *readCommitted[Tx]) run(ctx context.Context, fn func(conn sqldb.Conn) error) error {
	plain, err := d.isPlain(ctx)
	if err != nil {
		return err
	}
	if plain {
		return fn(d.database)
	}
	first := func(conn sqldb.Conn) error {
		_, err := conn.Exec(ctx, d.sql.StandBriefly)
		return err
	}
	none := func(sqldb.Conn) error { return nil }
	return sqldb.InTxBetween(ctx, d.database, first, func(tx Tx) error { return fn(d.On(tx)) }, none)
}

func (d *readCommitted[Tx]) Exec(ctx context.Context, query string, args ...any) (n int64, err error) {
	err = d.run(ctx, func(conn sqldb.Conn) (err error) {
		n, err = conn.Exec(ctx, query, args...)
		return err
	})
	return n, err
}

// Query is for statements that only read: their transaction ends when the rows are closed, and its
// outcome is not reported.
func (d *readCommitted[Tx]) Query(ctx context.Context, query string, args ...any) (sqldb.Rows, error) {
	plain, err := d.isPlain(ctx)
	if err != nil {
		return nil, err
	}
	if plain {
		return d.database.Query(ctx, query, args...)
	}
	tx, err := d.Begin(ctx)
	if err != nil {
		return nil, err
	}
	end := func() { _ = d.Rollback(tx) } // nothing was written
	rows, err := d.On(tx).Query(ctx, query, args...)
	if err != nil {
		end()
		return nil, err
	}
	return endingRows{rows, end}, nil
}

// endingRows end their transaction when they are closed.
type endingRows struct {
	sqldb.Rows
	end func()
}

func (r endingRows) Close() {
	r.Rows.Close()
	r.end()
}
