package conformance

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite"

	"github.com/waybill-go/waybill/store/sqlitestore"
	"github.com/waybill-go/waybill/store/storetest"
)

//test:newest
func TestSQLiteStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, sqliteHarness("_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_txlock=immediate", sqlitestore.Config{}))
}

//test:setup
func TestSQLiteStore_Setups(t *testing.T) {
	t.Parallel()
	t.Run("transactions begin deferred", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, sqliteHarness("_pragma=busy_timeout(5000)", sqlitestore.Config{TablePrefix: `My "pre'fix $1 ?2 %`}))
	})
	t.Run("nobody waits", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, sqliteHarness("_pragma=journal_mode(wal)", sqlitestore.Config{}))
	})
}

// sqliteStore is a store with its file.
type sqliteStore struct {
	*sqlitestore.Store
	db   *sql.DB
	path string
	cfg  sqlitestore.Config
}

func (s *sqliteStore) pool() *sql.DB { return s.db }

func (s *sqliteStore) table(name string) string {
	return pgx.Identifier{cmp.Or(s.cfg.TablePrefix, "waybill_") + name}.Sanitize()
}

func (s *sqliteStore) exec(stmt string, args ...any) error {
	_, err := s.db.ExecContext(context.Background(), stmt, args...)
	return err
}

func openSQLite(t *testing.T, path, params string, cfg sqlitestore.Config) *sqliteStore {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(off)&"+params)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	store, err := sqlitestore.New(db, cfg)
	must(t, err)
	return &sqliteStore{Store: store, db: db, path: path, cfg: cfg}
}

func sqliteHarness(params string, cfg sqlitestore.Config) storetest.Harness[*sql.Tx] {
	h := sqlHarness(storetest.Features{Lanes: 1, Traffic: true, Persists: true, InboxBatches: true, Offsets: true, Schedules: true, Sagas: true, EndsTransactions: true, KeepsAfterEnd: true}, "key")
	h.Break = func(ctx context.Context, _ storetest.Store[*sql.Tx], tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT OR ROLLBACK INTO once (id) VALUES (1), (1)")
		return err
	}
	h.Exhaust = func(t *testing.T, s storetest.Store[*sql.Tx], c storetest.Counter, left int) {
		t.Helper()
		table := cmp.Or(cfg.TablePrefix, "waybill_") + string(c)
		must(t, s.(*sqliteStore).exec("DELETE FROM sqlite_sequence WHERE name = ?", table))
		must(t, s.(*sqliteStore).exec("INSERT INTO sqlite_sequence VALUES (?, ?)", table, math.MaxInt64-left))
	}
	h.Open = func(t *testing.T) storetest.Store[*sql.Tx] {
		s := openSQLite(t, filepath.Join(t.TempDir(), "test.db"), params, cfg)
		_, err := s.Migrate(context.Background(), sqlitestore.MigrateOptions{Source: "raw"})
		must(t, err)
		must(t, s.exec("CREATE TABLE effects (name TEXT)"))
		must(t, s.exec("CREATE TABLE once (id INTEGER PRIMARY KEY)"))
		return s
	}
	h.Reopen = func(t *testing.T, s storetest.Store[*sql.Tx]) storetest.Store[*sql.Tx] {
		own := s.(*sqliteStore)
		own.db.Close()
		return openSQLite(t, own.path, params, cfg)
	}
	return h
}
