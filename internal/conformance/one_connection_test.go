package conformance

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/schedule"
	"github.com/waybill-go/waybill/store/mysqlstore"
	"github.com/waybill-go/waybill/store/pgstore"
	"github.com/waybill-go/waybill/store/sqlitestore"
	"github.com/waybill-go/waybill/store/storetest"
)

// transactional is what stores do in a transaction of the caller's.
type transactional[Tx any] interface {
	storetest.Store[Tx]
	schedule.Store[Tx]
	saga.Store[Tx]
}

// TestOneConnection: what runs in the caller's transaction, or around it, takes no second connection
// of the pool. As many callers as the pool has connections would wait for each other for ever.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		cfg  pgstore.Config
	}{{"full", pgstore.Config{}}, {"compact", pgstore.Config{CompactInbox: true}}} {
		p := newPostgres(t, nil, tc.cfg)
		t.Run("pgx, "+tc.name, func(t *testing.T) {
			t.Parallel()
			pool := onlyOne(t, p)
			store, err := pgstore.New(pool, p.schema(t))
			must(t, err)
			onOneConnection(t, store, func(ctx context.Context, fn func(pgx.Tx) error) error { return pgx.BeginFunc(ctx, pool, fn) })
		})
		t.Run("database/sql, "+tc.name, func(t *testing.T) {
			t.Parallel()
			db := stdlib.OpenDBFromPool(onlyOne(t, p))
			t.Cleanup(func() { db.Close() })
			store, err := pgstore.NewSQL(db, p.schema(t))
			must(t, err)
			onOneConnection(t, store, inSQL(db))
		})
	}
	server := newMySQL(t, nil, mysqlstore.Config{})
	t.Run("MySQL", func(t *testing.T) {
		t.Parallel()
		s := server.migrated(t)
		s.db.SetMaxOpenConns(1)
		onOneConnection(t, s.Store, inSQL(s.db))
	})
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		s := openSQLite(t, filepath.Join(t.TempDir(), "test.db"), sqliteWaits, sqlitestore.Config{})
		_, err := s.Migrate(t.Context(), sqlitestore.MigrateOptions{})
		must(t, err)
		s.db.SetMaxOpenConns(1)
		onOneConnection(t, s.Store, inSQL(s.db))
	})
}

// onlyOne returns a pool of one connection in addition to that of p.
func onlyOne(t *testing.T, p *postgres) *pgxpool.Pool {
	t.Helper()
	cfg := p.pool.Config()
	cfg.MaxConns, cfg.MinConns = 1, 0
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func inSQL(db *sql.DB) func(ctx context.Context, fn func(*sql.Tx) error) error {
	return func(ctx context.Context, fn func(*sql.Tx) error) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // does nothing after the commit
		if err := fn(tx); err != nil {
			return err
		}
		return tx.Commit()
	}
}

func onOneConnection[Tx any](t *testing.T, s transactional[Tx], begin func(ctx context.Context, fn func(Tx) error) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience) // it is reached by whoever waits for itself
	defer cancel()
	message := func(id string) waybill.Message {
		m := waybill.Message{ID: id, Topic: "orders", Type: "order." + id, Source: "shop", DeliverAt: time.Now().Add(time.Hour)}
		m.Complete()
		return m
	}
	record := func(id string) inbox.Record {
		m := message(id)
		return inbox.RecordOf("billing", &m)
	}
	later := message("later")
	steps := map[string]func(tx Tx) error{
		"EnqueueMessages": func(tx Tx) error {
			_, err := s.EnqueueMessages(ctx, tx, outbox.Batch{Messages: []waybill.Message{message("a"), message("a")}, Remember: true})
			return err
		},
		"AddRecord":     func(tx Tx) error { _, err := s.AddRecord(ctx, tx, record("a")); return err },
		"FindRecord":    func(tx Tx) error { _, _, err := s.FindRecord(ctx, tx, record("a").Key); return err },
		"RemoveRecords": func(tx Tx) error { _, err := s.RemoveRecords(ctx, tx, "t1", time.Hour, 10); return err },
		"Now":           func(tx Tx) error { _, err := s.Now(ctx, tx); return err },
		"AddScheduled":  func(tx Tx) error { _, err := s.AddScheduled(ctx, tx, &later); return err },
		"MoveScheduled": func(tx Tx) error { _, err := s.MoveScheduled(ctx, tx, "later", time.Now()); return err },
		"CancelScheduled": func(tx Tx) error {
			_, err := s.CancelScheduled(ctx, tx, "later")
			return err
		},
		"RemoveSchedule": func(tx Tx) error { _, err := s.RemoveSchedule(ctx, tx, "none"); return err },
	}
	for name, step := range steps {
		if err := begin(ctx, step); err != nil {
			t.Errorf("%s = %v", name, err)
		}
	}
	within := func(ctx context.Context, tx Tx) error { return steps["AddRecord"](tx) }
	if _, err := s.ProcessOnce(ctx, record("b"), within); err != nil {
		t.Errorf("ProcessOnce = %v", err)
	}
	_, err := s.Transact(ctx, func(ctx context.Context, tx Tx) (outbox.Batch, error) {
		return outbox.Batch{Messages: []waybill.Message{message("c")}}, within(ctx, tx)
	})
	if err != nil {
		t.Errorf("Transact = %v", err)
	}
}
