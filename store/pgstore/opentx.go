package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill/internal/sqldb"
)

const beginSQL = "BEGIN ISOLATION LEVEL READ COMMITTED"

// BeginWith sends BEGIN and the statement of first in one round trip, with the statements for the
// gate timeout around it. A transaction whose statement fails is rolled back.
func (d pgxDriver) BeginWith(ctx context.Context, first func(conn sqldb.Conn) error) (pgx.Tx, error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	o := &opener{conn: conn.Conn(), patience: d.gate}
	if err := o.end(first(o)); err != nil {
		return nil, d.abandon(conn, err)
	}
	return &poolTx{Tx: openTx{conn.Conn()}, conn: conn}, nil
}

// abandon ends what BeginWith could not, and returns the connection; the pool closes it if it
// cannot be reused.
func (d pgxDriver) abandon(conn *pgxpool.Conn, cause error) error {
	defer conn.Release()
	if conn.Conn().PgConn().TxStatus() == 'I' {
		return cause // nothing was sent
	}
	if d.Rollback(openTx{conn.Conn()}) != nil {
		return sqldb.Lost(cause)
	}
	return cause
}

// opener runs the first statement of a transaction, with BEGIN before it.
type opener struct {
	conn     *pgx.Conn
	patience patience
	results  pgx.BatchResults // nil while nothing was run
}

var _ sqldb.Conn = (*opener)(nil)

// send returns the error of what comes before the statement.
func (o *opener) send(ctx context.Context, sql string, args []any) error {
	batch := &pgx.Batch{}
	batch.Queue(beginSQL)
	before, after := o.patience.statements()
	for _, s := range before {
		batch.Queue(s.sql, s.args...)
	}
	batch.Queue(sql, args...)
	for _, s := range after {
		batch.Queue(s.sql, s.args...)
	}
	o.results = o.conn.SendBatch(ctx, batch)
	for range 1 + len(before) {
		if _, err := o.results.Exec(); err != nil {
			return err
		}
	}
	return nil
}

func (o *opener) Exec(ctx context.Context, sql string, args ...any) (int64, error) {
	if err := o.send(ctx, sql, args); err != nil {
		return 0, err
	}
	tag, err := o.results.Exec()
	return tag.RowsAffected(), err
}

func (o *opener) Query(ctx context.Context, sql string, args ...any) (sqldb.Rows, error) {
	if err := o.send(ctx, sql, args); err != nil {
		return nil, err
	}
	return o.results.Query()
}

// end reads what is left of the results. err is that of the statement.
func (o *opener) end(err error) error {
	if o.results == nil {
		return err
	}
	if closeErr := o.results.Close(); err == nil {
		err = closeErr
	}
	return err
}

// openTx is the transaction that is open on a connection. pgx makes one only by sending BEGIN.
type openTx struct{ conn *pgx.Conn }

var _ pgx.Tx = openTx{}

func (t openTx) Conn() *pgx.Conn { return t.conn }

func (t openTx) Commit(ctx context.Context) error {
	tag, err := t.conn.Exec(ctx, "COMMIT")
	switch {
	case err != nil && t.conn.PgConn().TxStatus() != 'I':
		_ = t.conn.Close(ctx) // the same error
		return err
	case err == nil && tag.String() == "ROLLBACK":
		return pgx.ErrTxCommitRollback
	}
	return err
}

func (t openTx) Rollback(ctx context.Context) error {
	_, err := t.conn.Exec(ctx, "ROLLBACK")
	if err != nil {
		_ = t.conn.Close(ctx) // the same error
	}
	return err
}

// own returns the transaction as one of pgx's own, which is needed for savepoints and large
// objects. An empty statement stands for its BEGIN; that works in a failed transaction, too.
func (t openTx) own(ctx context.Context) (pgx.Tx, error) {
	return t.conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: ";"})
}

func (t openTx) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := t.own(ctx)
	if err != nil {
		return nil, err
	}
	return tx.Begin(ctx)
}

// LargeObjects asks the server once. Without an answer the connection is closed.
func (t openTx) LargeObjects() pgx.LargeObjects {
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
	defer cancel()
	tx, err := t.own(ctx)
	if err != nil {
		return pgx.LargeObjects{}
	}
	return tx.LargeObjects()
}

func (t openTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	return t.conn.CopyFrom(ctx, table, columns, rows)
}

func (t openTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return t.conn.SendBatch(ctx, b)
}

func (t openTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	return t.conn.Prepare(ctx, name, sql)
}

func (t openTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return t.conn.Exec(ctx, sql, args...)
}

func (t openTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return t.conn.Query(ctx, sql, args...)
}

func (t openTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return t.conn.QueryRow(ctx, sql, args...)
}
