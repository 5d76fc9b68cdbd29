package interleave_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"testing"

	"modernc.org/sqlite"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/interleave"
	"github.com/waybill-go/waybill/store/sqlitestore"
)

// TestSQLite_Orders explores every scenario on a file. A session that meets a lock does not wait: it is a conflict.
func TestSQLite_Orders(t *testing.T) {
	t.Parallel()
	exploreAll(t, newSQLite(t), atMost(260))
}

func newSQLite(t *testing.T) *env[*sql.Tx] {
	t.Helper()
	file := "file:" + filepath.Join(t.TempDir(), "test.db") + "?_pragma=synchronous(off)&_pragma=journal_mode(wal)"
	open := func(gate *interleave.Gate) *sql.DB {
		db := sql.OpenDB(gated{file: file, gate: gate})
		db.SetMaxOpenConns(1)
		t.Cleanup(func() { db.Close() })
		return db
	}
	control := open(nil)
	store, err := sqlitestore.New(control, sqlitestore.Config{})
	must(t, err)
	_, err = store.Migrate(t.Context(), sqlitestore.MigrateOptions{})
	must(t, err)
	_, err = control.ExecContext(t.Context(), "CREATE TABLE effects (name TEXT)")
	must(t, err)
	e := sqlEnv(interleave.NewBoard(), control, "waybill_", "DELETE FROM waybill_outbox", "DELETE FROM waybill_outbox_ids", "DELETE FROM waybill_inbox")
	e.admin = sqlParty(open(nil), nil, openSQLite, sqliteConflict)
	for range maxParties {
		gate := e.board.Local()
		e.parties = append(e.parties, sqlParty(open(gate), gate, openSQLite, sqliteConflict))
	}
	e.waits = func(context.Context) (map[int][]int, error) { return nil, nil }
	return e
}

func openSQLite(db *sql.DB) (store[*sql.Tx], error) {
	return sqlitestore.New(db, sqlitestore.Config{})
}

// sqliteConflict marks a lock that was not to be had in the caller's own transaction.
func sqliteConflict(err error) error {
	const busy = 5 // SQLITE_BUSY, in the low byte
	var e *sqlite.Error
	if errors.As(err, &e) && e.Code()&0xff == busy {
		return waybill.ConflictError(err)
	}
	return err
}

// gated connects to a file, and takes each statement for a step; without a gate none is one.
type gated struct {
	file string
	gate *interleave.Gate
}

// step waits for the turn of a session, if there is one.
type step struct{ gate *interleave.Gate }

func (s step) wait() {
	if s.gate != nil {
		s.gate.Step()
	}
}

// sqliteConn is what the driver's connections offer.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
}

// Connect implements [driver.Connector].
func (g gated) Connect(context.Context) (driver.Conn, error) {
	conn, err := g.Driver().Open(g.file)
	if err != nil {
		return nil, err
	}
	return gatedConn{conn.(sqliteConn), step{g.gate}, make(map[string]sqliteStmt)}, nil
}

// Driver implements [driver.Connector].
func (gated) Driver() driver.Driver { return new(sqlite.Driver) }

// gatedConn keeps the statements that were run on it: parsing takes longer than running them, and stores, which prepare
// what they run, are reopened for each run.
type gatedConn struct {
	sqliteConn
	step step
	kept map[string]sqliteStmt
}

// BeginTx implements [driver.ConnBeginTx].
func (c gatedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.step.wait()
	tx, err := c.sqliteConn.BeginTx(ctx, opts)
	return gatedTx{tx, c.step}, err
}

// ExecContext implements [driver.ExecerContext].
func (c gatedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if s, err := c.prepared(ctx, query); err == nil {
		return s.ExecContext(ctx, args)
	}
	c.step.wait()
	return c.sqliteConn.ExecContext(ctx, query, args)
}

// QueryContext implements [driver.QueryerContext].
func (c gatedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if s, err := c.prepared(ctx, query); err == nil {
		return s.QueryContext(ctx, args)
	}
	c.step.wait()
	return c.sqliteConn.QueryContext(ctx, query, args)
}

// PrepareContext implements [driver.ConnPrepareContext]. To prepare a statement is no step.
func (c gatedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	return c.prepared(ctx, query)
}

func (c gatedConn) prepared(ctx context.Context, query string) (gatedStmt, error) {
	s := c.kept[query]
	if s == nil {
		stmt, err := c.sqliteConn.PrepareContext(ctx, query)
		if err != nil {
			return gatedStmt{}, err
		}
		s = stmt.(sqliteStmt)
		c.kept[query] = s
	}
	return gatedStmt{s, c.step}, nil
}

// sqliteStmt is what the driver's statements offer.
type sqliteStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type gatedStmt struct {
	sqliteStmt
	step step
}

// Close implements [driver.Stmt]: the connection keeps the statement.
func (gatedStmt) Close() error { return nil }

// ExecContext implements [driver.StmtExecContext].
func (s gatedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	s.step.wait()
	return s.sqliteStmt.ExecContext(ctx, args)
}

// QueryContext implements [driver.StmtQueryContext].
func (s gatedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	s.step.wait()
	return s.sqliteStmt.QueryContext(ctx, args)
}

type gatedTx struct {
	driver.Tx
	step step
}

// Commit implements [driver.Tx].
func (t gatedTx) Commit() error {
	t.step.wait()
	return t.Tx.Commit()
}
