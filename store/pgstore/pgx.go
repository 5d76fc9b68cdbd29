package pgstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill/internal/sqldb"
)

// pgxDriver is the driver for pgx's own interface.
type pgxDriver struct {
	pool *pgxpool.Pool
	gate patience
}

var (
	_ sqldb.Driver[pgx.Tx] = pgxDriver{}
	_ sqldb.Opener[pgx.Tx] = pgxDriver{}
)

// pgxExecer is what pools and transactions have in common.
type pgxExecer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

type pgxConn struct{ on pgxExecer }

func (c pgxConn) Exec(ctx context.Context, sql string, args ...any) (int64, error) {
	tag, err := c.on.Exec(ctx, sql, args...)
	return tag.RowsAffected(), err
}

func (c pgxConn) Query(ctx context.Context, sql string, args ...any) (sqldb.Rows, error) {
	return c.on.Query(ctx, sql, args...)
}

func (d pgxDriver) Exec(ctx context.Context, sql string, args ...any) (int64, error) {
	return pgxConn{d.pool}.Exec(ctx, sql, args...)
}

func (d pgxDriver) Query(ctx context.Context, sql string, args ...any) (sqldb.Rows, error) {
	return pgxConn{d.pool}.Query(ctx, sql, args...)
}

func (d pgxDriver) On(tx pgx.Tx) sqldb.Conn {
	if tx == nil || tx == noPoolTx {
		return sqldb.NoTx{}
	}
	return pgxConn{tx}
}

// noPoolTx is what a variable of the pool's type holds before a transaction has begun.
var noPoolTx pgx.Tx = (*pgxpool.Tx)(nil)

// Begin takes a separate connection, so that the transaction can be ended by a COMMIT in a batch,
// which a transaction of the pool would not learn of.
func (d pgxDriver) Begin(ctx context.Context) (pgx.Tx, error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		conn.Release()
		return nil, err
	}
	return &poolTx{Tx: tx, conn: conn}, nil
}

func (d pgxDriver) Commit(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) }

// CommitAfter sends the statement of last and COMMIT in one round trip. The server skips
// COMMIT if the statement fails.
func (d pgxDriver) CommitAfter(ctx context.Context, tx pgx.Tx, last func(conn sqldb.Conn) error) error {
	c := &committer{tx: tx}
	err := last(c)
	switch {
	case c.results == nil && err == nil: // there was nothing to store
		err = tx.Commit(ctx)
	case c.results != nil:
		err = c.end(err)
	}
	if own, ok := tx.(*poolTx); ok && err == nil {
		own.end()
	}
	return err
}

// Rollback uses a separate context: the caller's may have ended, which may be the reason for the
// rollback.
func (d pgxDriver) Rollback(tx pgx.Tx) error {
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
	defer cancel()
	if err := tx.Rollback(ctx); !errors.Is(err, pgx.ErrTxClosed) {
		return err
	}
	return nil
}
