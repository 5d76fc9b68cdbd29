package conformance

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/pgstore"
)

// oldSchema is a schema of version 1, whose tables others use while it is migrated.
type oldSchema struct {
	t     *testing.T
	p     *postgres
	cfg   pgstore.Config
	store *pgstore.Store[pgx.Tx]
}

func newOldSchema(t *testing.T, params map[string]string) *oldSchema {
	t.Helper()
	p := newPostgres(t, params, pgstore.Config{})
	cfg := pgstore.Config{Schema: "old_" + strings.ReplaceAll(waybill.NewID(), "-", "")[12:]}
	store, err := pgstore.New(p.pool, cfg)
	must(t, err)
	t.Cleanup(func() { p.drop(t, cfg) })
	_, err = store.Migrate(t.Context(), pgstore.MigrateOptions{Version: 1})
	must(t, err)
	return &oldSchema{t: t, p: p, cfg: cfg, store: store}
}

// hold begins a transaction that has a table as one that writes has it.
func (s *oldSchema) hold(table string) pgx.Tx {
	s.t.Helper()
	tx, err := s.p.pool.Begin(s.t.Context())
	must(s.t, err)
	s.t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // of a test that failed
	must(s.t, s.lock(tx, table))
	return tx
}

func (s *oldSchema) lock(tx pgx.Tx, table string) error {
	_, err := tx.Exec(s.t.Context(), "LOCK TABLE "+tableOf(s.cfg, table)+" IN ROW EXCLUSIVE MODE")
	return err
}

// migrate begins to migrate; what becomes of it comes through the channel.
func (s *oldSchema) migrate() chan error {
	done := make(chan error, 1)
	go func() {
		version, err := s.store.Migrate(s.t.Context(), pgstore.MigrateOptions{})
		if err == nil && version != len(s.store.Migrations()) {
			s.t.Errorf("Migrate() = %d, want %d", version, len(s.store.Migrations()))
		}
		done <- err
	}()
	return done
}

// untilWaiting waits until somebody waits for a table in the given mode.
func (s *oldSchema) untilWaiting(table, mode string) {
	s.t.Helper()
	waitFor(s.t, "somebody waits for "+table, func() (waits bool) {
		must(s.t, s.p.pool.QueryRow(s.t.Context(), "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE relation = $1::regclass AND mode = $2 AND NOT granted)",
			tableOf(s.cfg, table), mode).Scan(&waits))
		return waits
	})
}

func (s *oldSchema) deadlocks() (n int) {
	s.t.Helper()
	must(s.t, s.p.pool.QueryRow(s.t.Context(), "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").Scan(&n))
	return n
}

// TestPostgresStore_MigrateDeadlock takes tables in another order than the migration does. The migration
// is the last one to wait, and so the one that the server ends.
func TestPostgresStore_MigrateDeadlock(t *testing.T) {
	t.Parallel()
	s := newOldSchema(t, map[string]string{"deadlock_timeout": "10ms"})
	deadlocks := s.deadlocks()
	other, brake := s.hold("consumer_attempts"), s.hold("outbox_waiting")
	_, err := other.Exec(t.Context(), "SET LOCAL deadlock_timeout = '1h'")
	must(t, err)
	migrated := s.migrate()
	s.untilWaiting("outbox_waiting", "AccessExclusiveLock") // it has dead_letters
	locked := make(chan error, 1)
	go func() { locked <- s.lock(other, "dead_letters") }()
	s.untilWaiting("dead_letters", "RowExclusiveLock")
	must(t, brake.Rollback(t.Context())) // now it asks for consumer_attempts

	must(t, <-locked)
	must(t, other.Commit(t.Context()))
	if err := <-migrated; err != nil {
		t.Errorf("Migrate() = %v, want it done in spite of a deadlock", err)
	}
	waitFor(t, "the server tells of a deadlock", func() bool { return s.deadlocks() > deadlocks })
}

// TestPostgresStore_MigrateWaits: while a migration waits for a long transaction, others do not wait
// behind it for as long.
func TestPostgresStore_MigrateWaits(t *testing.T) {
	t.Parallel()
	s := newOldSchema(t, nil)
	long := s.hold("outbox_waiting")
	migrated := s.migrate()
	s.untilWaiting("outbox_waiting", "AccessExclusiveLock")
	for _, table := range []string{"dead_letters", "outbox_waiting"} {
		_, err := s.p.pool.Exec(t.Context(), "SET statement_timeout = '30s'; SELECT count(*) FROM "+tableOf(s.cfg, table)+"; RESET statement_timeout")
		if err != nil {
			t.Errorf("reading %s while a migration waits = %v, want it done before the long transaction has ended", table, err)
		}
	}
	must(t, long.Commit(t.Context()))
	if err := <-migrated; err != nil {
		t.Errorf("Migrate() = %v, want it done after the long transaction", err)
	}
}
