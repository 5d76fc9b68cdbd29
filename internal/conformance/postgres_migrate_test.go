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

// trafficOrders are pairs of tables that a transaction comes for, one after the other, while the schema migrates.
var trafficOrders = [...][2]string{
	{"outbox", "outbox_waiting"}, {"outbox_waiting", "outbox"}, {"outbox", "dead_letters"}, {"dead_letters", "outbox"},
	{"consumer_attempts", "dead_letters"}, {"outbox_ids", "outbox"}, {"relays", "outbox"},
}

// eachTrafficOrder runs a test for each of trafficOrders.
func eachTrafficOrder(t *testing.T, test func(t *testing.T, s *oldSchema, first, second string)) {
	t.Helper()
	for _, order := range trafficOrders {
		t.Run(order[0]+" first, then "+order[1], func(t *testing.T) {
			t.Parallel()
			test(t, newOldSchema(t), order[0], order[1])
		})
	}
}

// anyWaiting reports whether the migration waits for a table.
func (s *oldSchema) anyWaiting() (waits bool) {
	s.t.Helper()
	must(s.t, s.p.pool.QueryRow(s.t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
		WHERE c.relnamespace = to_regnamespace($1) AND l.mode = 'AccessExclusiveLock' AND NOT l.granted)`, s.cfg.Schema).Scan(&waits))
	return waits
}

// TestPostgresStore_MigrateUnderTraffic: whatever the order, it does not end in a deadlock, and the
// migration is done.
//
//test:setup
func TestPostgresStore_MigrateUnderTraffic(t *testing.T) {
	t.Parallel()
	eachTrafficOrder(t, func(t *testing.T, s *oldSchema, first, second string) {
		traffic := s.hold(first)
		migrated := s.migrate()
		s.untilWaiting(first, "AccessExclusiveLock")
		must(t, s.lock(traffic, second))
		must(t, traffic.Commit(t.Context()))
		if err := <-migrated; err != nil {
			t.Errorf("Migrate() = %v, want it done after the transaction", err)
		}
	})
}

// TestPostgresStore_MigrateUnderSteadyTraffic: one transaction follows the other, and each has its first
// table whenever the migration comes.
//
//test:setup
func TestPostgresStore_MigrateUnderSteadyTraffic(t *testing.T) {
	t.Parallel()
	eachTrafficOrder(t, func(t *testing.T, s *oldSchema, first, second string) {
		traffic := s.hold(first)
		migrated := s.migrate()
		for {
			select {
			case err := <-migrated:
				if err != nil {
					t.Errorf("Migrate() = %v, want it done between the transactions", err)
				}
				must(t, traffic.Commit(t.Context()))
				return
			default:
			}
			if s.anyWaiting() {
				must(t, s.lock(traffic, second))
				must(t, traffic.Commit(t.Context()))
				traffic = s.hold(first)
			}
		}
	})
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
