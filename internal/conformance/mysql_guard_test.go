package conformance

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/store/mysqlstore"
)

func orderOf(id string) inbox.Record {
	m := waybill.Message{ID: id, Topic: "orders", Source: "shop"}
	m.Complete()
	return inbox.RecordOf("billing", &m)
}

// TestMySQLStore_HandlersSession: the transactions of handlers are at READ COMMITTED, and a session
// that has served one commits by itself again, however the handler has ended.
func TestMySQLStore_HandlersSession(t *testing.T) {
	t.Parallel()
	s := newMySQL(t, nil, mysqlstore.Config{}).migrated(t)
	s.db.SetMaxOpenConns(1)
	var level string
	handlers := map[string]func(ctx context.Context, cancel func(), tx *sql.Tx) error{
		"succeeds": func(ctx context.Context, _ func(), tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES ('a')"); err != nil {
				return err
			}
			return innodbTrx{tx}.QueryRow("SELECT trx_isolation_level FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = connection_id()").Scan(&level)
		},
		"fails":     func(context.Context, func(), *sql.Tx) error { return errors.New("no") },
		"panics":    func(context.Context, func(), *sql.Tx) error { panic("no") },
		"cancelled": func(_ context.Context, cancel func(), _ *sql.Tx) error { cancel(); return nil },
		"rolls back": func(_ context.Context, _ func(), tx *sql.Tx) error {
			return tx.Rollback()
		},
		"commits": func(_ context.Context, _ func(), tx *sql.Tx) error { return tx.Commit() },
	}
	for name, handle := range handlers {
		ctx, cancel := context.WithCancel(t.Context())
		func() {
			defer func() { _ = recover() }() // of the handler that panics
			_, _ = s.ProcessOnce(ctx, orderOf(name), func(ctx context.Context, tx *sql.Tx) error { return handle(ctx, cancel, tx) })
		}()
		cancel()
		var commits int
		must(t, s.db.QueryRow("SELECT @@autocommit").Scan(&commits))
		if commits != 1 {
			t.Errorf("after a handler that %s, the session does not commit by itself", name)
		}
	}
	if level != "READ COMMITTED" {
		t.Errorf("isolation level of a handler's transaction = %q, want READ COMMITTED", level)
	}
}

// TestMySQLStore_GuardTrips counts the statements around a handler's transaction.
func TestMySQLStore_GuardTrips(t *testing.T) {
	t.Parallel()
	s := newMySQL(t, nil, mysqlstore.Config{}).migrated(t)
	s.db.SetMaxOpenConns(1)
	questions := func() (n int) {
		var name string
		must(t, s.db.QueryRow("SHOW SESSION STATUS LIKE 'Questions'").Scan(&name, &n))
		return n
	}
	nothing := func(context.Context, *sql.Tx) (outbox.Batch, error) { return outbox.Batch{}, nil }
	_, err := s.Transact(t.Context(), nothing) // the first one learns the variable's name
	must(t, err)
	before := questions()
	_, err = s.Transact(t.Context(), nothing)
	must(t, err)
	if n := questions() - before - 1; n != 6 {
		t.Errorf("a transaction takes %d statements next to its own, want 6", n)
	}
}

// TestMySQLStore_IdleSessionsEnded: the server has ended the sessions that rest in the pool, as it
// does after wait_timeout. None of them costs a transaction.
func TestMySQLStore_IdleSessionsEnded(t *testing.T) {
	t.Parallel()
	s := newMySQL(t, nil, mysqlstore.Config{}).migrated(t)
	var conns []*sql.Conn
	var ids []string
	for range 4 { // as many as the pool keeps
		conn, err := s.db.Conn(t.Context())
		must(t, err)
		var id int
		must(t, conn.QueryRowContext(t.Context(), "SELECT connection_id()").Scan(&id))
		conns, ids = append(conns, conn), append(ids, fmt.Sprint(id))
	}
	for _, conn := range conns {
		must(t, conn.Close())
	}
	for _, id := range ids {
		_, err := s.server.admin.Exec("KILL " + id)
		must(t, err)
	}
	waitFor(t, "the sessions have ended", func() bool {
		var left int
		must(t, s.server.admin.QueryRow("SELECT count(*) FROM information_schema.processlist WHERE id IN ("+strings.Join(ids, ",")+")").Scan(&left))
		return left == 0
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := s.Transact(ctx, func(context.Context, *sql.Tx) (outbox.Batch, error) { return outbox.Batch{}, nil })
	must(t, err)
}
