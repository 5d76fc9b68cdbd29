package conformance

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"modernc.org/sqlite"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/store/sqlitestore"
)

// TestSQLiteStore_Prepared: a statement is prepared once for each connection, and closed with the store that it was
// prepared for; also in a pool of one connection, and in a transaction of another pool.
func TestSQLiteStore_Prepared(t *testing.T) {
	t.Parallel()
	c := &preparing{file: "file:" + filepath.Join(t.TempDir(), "prepared.db") + "?_pragma=busy_timeout(5000)&_txlock=immediate"}
	pool, other := sql.OpenDB(c), sql.OpenDB(&preparing{file: c.file})
	defer pool.Close()
	defer other.Close()
	pool.SetMaxOpenConns(1)
	enqueued := func(w *outbox.Writer[*sql.Tx]) {
		for range 5 {
			if _, err := w.InTx(t.Context(), func(_ context.Context, _ *sql.Tx, rec *outbox.Recorder) error {
				rec.Record(waybill.Message{Topic: "orders", Payload: []byte(`{}`)})
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	func() {
		store, err := sqlitestore.New(pool, sqlitestore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		w, err := outbox.NewWriter(store, outbox.Config{Source: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Migrate(t.Context(), sqlitestore.MigrateOptions{}); err != nil {
			t.Fatal(err)
		}
		enqueued(w)
		if n := c.open.Load(); n == 0 {
			t.Error("nothing is prepared")
		}
		tx, err := other.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Enqueue(t.Context(), tx, waybill.Message{Topic: "orders", Payload: []byte(`{}`)}); err != nil {
			t.Errorf("Enqueue() in a transaction of another pool: %v", err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		enqueued(w)
		runtime.KeepAlive(store)
	}()
	c.twice.Range(func(query, _ any) bool {
		t.Errorf("prepared twice: %s", query)
		return true
	})
	waitFor(t, "the statements of a store that is gone are closed", func() bool {
		runtime.GC()
		return c.open.Load() == 0
	})
}

// preparing connects to a file and knows what is prepared.
type preparing struct {
	file        string
	open        atomic.Int64
	seen, twice sync.Map // texts
}

// Connect implements [driver.Connector].
func (p *preparing) Connect(context.Context) (driver.Conn, error) {
	conn, err := p.Driver().Open(p.file)
	if err != nil {
		return nil, err
	}
	return preparingConn{conn.(sqliteDriverConn), p}, nil
}

// Driver implements [driver.Connector].
func (*preparing) Driver() driver.Driver { return new(sqlite.Driver) }

// sqliteDriverConn is what the driver's connections offer.
type sqliteDriverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
}

type preparingConn struct {
	sqliteDriverConn
	*preparing
}

// PrepareContext implements [driver.ConnPrepareContext].
func (c preparingConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.sqliteDriverConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	if _, known := c.seen.LoadOrStore(query, true); known {
		c.twice.Store(query, true)
	}
	c.open.Add(1)
	return preparedStmt{s.(sqliteDriverStmt), c.preparing}, nil
}

type sqliteDriverStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type preparedStmt struct {
	sqliteDriverStmt
	*preparing
}

func (s preparedStmt) Close() error {
	s.open.Add(-1)
	return s.sqliteDriverStmt.Close()
}
