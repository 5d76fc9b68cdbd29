package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill/internal/sqldb"
)

// poolTx is a transaction that returns its connection to the pool when it ends. From then on it is a
// closedTx, so that a caller who keeps it cannot reach the connection's next user.
type poolTx struct {
	pgx.Tx
	conn *pgxpool.Conn // nil once the transaction has ended
}

func (t *poolTx) Commit(ctx context.Context) error {
	defer t.end()
	return t.Tx.Commit(ctx)
}

func (t *poolTx) Rollback(ctx context.Context) error {
	defer t.end()
	return t.Tx.Rollback(ctx)
}

func (t *poolTx) end() {
	if t.conn == nil {
		return
	}
	t.conn.Release()
	t.Tx, t.conn = closedTx{}, nil
}

// committer runs the last statement of a transaction, with COMMIT behind it.
type committer struct {
	tx      pgx.Tx
	results pgx.BatchResults // nil while nothing was run
}

var _ sqldb.Conn = (*committer)(nil)

func (c *committer) send(ctx context.Context, sql string, args []any) {
	batch := &pgx.Batch{}
	batch.Queue(sql, args...)
	batch.Queue("COMMIT")
	c.results = c.tx.SendBatch(ctx, batch)
}

func (c *committer) Exec(ctx context.Context, sql string, args ...any) (int64, error) {
	c.send(ctx, sql, args)
	tag, err := c.results.Exec()
	return tag.RowsAffected(), err
}

func (c *committer) Query(ctx context.Context, sql string, args ...any) (sqldb.Rows, error) {
	c.send(ctx, sql, args)
	return c.results.Query()
}

// end reads what COMMIT came to, unless the statement failed with err. In a transaction that
// had failed before, the statement fails, so that COMMIT never answers ROLLBACK.
func (c *committer) end(err error) error {
	if err != nil {
		_ = c.results.Close() // the same error
		return err
	}
	_, err = c.results.Exec()
	if closeErr := c.results.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// closedTx returns [pgx.ErrTxClosed] from every method.
type closedTx struct{ pgx.Tx }

func (closedTx) Begin(context.Context) (pgx.Tx, error) { return nil, pgx.ErrTxClosed }
func (closedTx) Commit(context.Context) error          { return pgx.ErrTxClosed }
func (closedTx) Rollback(context.Context) error        { return pgx.ErrTxClosed }
func (closedTx) Conn() *pgx.Conn                       { return nil }

func (closedTx) CopyFrom(context.Context, pgx.Identifier, []string, pgx.CopyFromSource) (int64, error) {
	return 0, pgx.ErrTxClosed
}

func (closedTx) SendBatch(context.Context, *pgx.Batch) pgx.BatchResults { return closedResults{} }

func (closedTx) Prepare(context.Context, string, string) (*pgconn.StatementDescription, error) {
	return nil, pgx.ErrTxClosed
}

func (closedTx) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, pgx.ErrTxClosed
}

func (closedTx) Query(context.Context, string, ...any) (pgx.Rows, error) {
	return closedRows{}, pgx.ErrTxClosed
}

func (closedTx) QueryRow(context.Context, string, ...any) pgx.Row { return closedRows{} }

// closedResults are those of a batch that a closedTx did not send. The interface is embedded because
// it grows with versions of pgx: Tx came with 5.12.
type closedResults struct{ pgx.BatchResults }

func (closedResults) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, pgx.ErrTxClosed }
func (closedResults) Query() (pgx.Rows, error)         { return closedRows{}, pgx.ErrTxClosed }
func (closedResults) QueryRow() pgx.Row                { return closedRows{} }
func (closedResults) Close() error                     { return pgx.ErrTxClosed }
func (closedResults) Tx() pgx.Tx                       { return closedTx{} }

// closedRows are those of a query that a closedTx did not run.
type closedRows struct{ pgx.Rows }

func (closedRows) Close()            {}
func (closedRows) Err() error        { return pgx.ErrTxClosed }
func (closedRows) Next() bool        { return false }
func (closedRows) Scan(...any) error { return pgx.ErrTxClosed }
