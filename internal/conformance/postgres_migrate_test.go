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

func newOldSchema(t *testing.T) *oldSchema {
	t.Helper()
	p := newPostgres(t, nil, pgstore.Config{})
	cfg := pgstore.Config{Schema: "old_" + strings.ReplaceAll(waybill.NewID(), "-", "")[12:]}
	store, err := pgstore.New(p.pool, cfg)
	must(t, err)
	t.Cleanup(func() { p.drop(t, cfg) })
	_, err = store.Migrate(t.Context(), pgstore.MigrateOptions{LockWait: patience, Version: 1})
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
		version, err := s.store.Migrate(s.t.Context(), pgstore.MigrateOptions{LockWait: patience})
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

// TestPostgresStore_MigrateUnderTraffic: a transaction has one table and comes for another while the
// schema migrates. Whatever the order, it does not end in a deadlock, and the migration is done.
func TestPostgresStore_MigrateUnderTraffic(t *testing.T) {
	t.Parallel()
	for _, order := range [][2]string{
		{"outbox", "outbox_waiting"}, {"outbox_waiting", "outbox"}, {"outbox", "dead_letters"}, {"dead_letters", "outbox"},
		{"consumer_attempts", "dead_letters"}, {"outbox_ids", "outbox"}, {"relays", "outbox"},
	} {
		t.Run(order[0]+" first, then "+order[1], func(t *testing.T) {
			t.Parallel()
			s := newOldSchema(t)
			traffic := s.hold(order[0])
			migrated := s.migrate()
			s.untilWaiting(order[0], "AccessExclusiveLock")
			must(t, s.lock(traffic, order[1]))
			must(t, traffic.Commit(t.Context()))
			if err := <-migrated; err != nil {
				t.Errorf("Migrate() = %v, want it done after the transaction", err)
			}
		})
	}
}

// TestPostgresStore_MigrateWaits: while a migration waits for a long transaction, others do not wait
// behind it for as long.
func TestPostgresStore_MigrateWaits(t *testing.T) {
	t.Parallel()
	s := newOldSchema(t)
	long := s.hold("outbox_waiting")
	migrated := s.migrate()
	s.untilWaiting("outbox_waiting", "AccessExclusiveLock")
	for _, table := range []string{"outbox", "outbox_waiting"} {
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
