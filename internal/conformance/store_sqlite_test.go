package conformance

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite"

	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/store/sqlitestore"
	"github.com/waybill-go/waybill/store/storetest"
)

func TestSQLiteStore(t *testing.T) {
	for _, tc := range []struct {
		name   string
		params string
		cfg    sqlitestore.Config
	}{
		{name: "as recommended", params: "_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_txlock=immediate"},
		{name: "transactions begin deferred", params: "_pragma=busy_timeout(5000)", cfg: sqlitestore.Config{TablePrefix: `My "pre'fix $1 ?2 %`}},
		{name: "nobody waits", params: "_pragma=journal_mode(wal)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			storetest.Run(t, sqliteHarness(tc.params, tc.cfg))
		})
	}
}

// sqliteStore is a store with its file.
type sqliteStore struct {
	*sqlitestore.Store
	db   *sql.DB
	path string
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
	return &sqliteStore{Store: store, db: db, path: path}
}

func sqliteHarness(params string, cfg sqlitestore.Config) storetest.Harness[*sql.Tx] {
	prefix := cfg.TablePrefix
	if prefix == "" {
		prefix = "waybill_"
	}
	table := func(name string) string { return pgx.Identifier{prefix + name}.Sanitize() }
	own := func(s storetest.Store[*sql.Tx]) *sqliteStore { return s.(*sqliteStore) }
	return storetest.Harness[*sql.Tx]{
		Features: storetest.Features{Lanes: 1, Persists: true},
		Open: func(t *testing.T) storetest.Store[*sql.Tx] {
			s := openSQLite(t, filepath.Join(t.TempDir(), "test.db"), params, cfg)
			_, err := s.Migrate(context.Background(), sqlitestore.MigrateOptions{Source: "raw"})
			must(t, err)
			must(t, s.exec("CREATE TABLE effects (name TEXT)"))
			return s
		},
		Reopen: func(t *testing.T, s storetest.Store[*sql.Tx]) storetest.Store[*sql.Tx] {
			own(s).db.Close()
			return openSQLite(t, own(s).path, params, cfg)
		},
		Begin:    func(t *testing.T, s storetest.Store[*sql.Tx]) *sql.Tx { t.Helper(); return beginSQL(t, own(s).db) },
		Commit:   func(t *testing.T, tx *sql.Tx) { t.Helper(); must(t, tx.Commit()) },
		Rollback: func(t *testing.T, tx *sql.Tx) { t.Helper(); must(t, tx.Rollback()) },
		Effect: func(ctx context.Context, _ storetest.Store[*sql.Tx], tx *sql.Tx, name string) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO effects (name) VALUES (?)", name)
			return err
		},
		Effects: func(t *testing.T, s storetest.Store[*sql.Tx], name string) (n int) {
			t.Helper()
			must(t, own(s).db.QueryRow("SELECT count(*) FROM effects WHERE name = ?", name).Scan(&n))
			return n
		},
		Advance: func(t *testing.T, s storetest.Store[*sql.Tx], d time.Duration) {
			t.Helper()
			must(t, own(s).exec("UPDATE "+table("settings")+" SET clock_offset_us = clock_offset_us + ?", d.Microseconds()))
		},
		Forget: func(t *testing.T, s storetest.Store[*sql.Tx], k inbox.Key) {
			t.Helper()
			must(t, own(s).exec("DELETE FROM "+table("inbox")+" WHERE consumer = ? AND message_key = ?", k.Consumer, k.Message))
		},
		InsertRaw: func(s storetest.Store[*sql.Tx], raw storetest.Raw) error {
			if raw.Headers == "" && raw.Key == "" {
				return own(s).exec("INSERT INTO "+table("outbox")+" (topic, payload) VALUES (?, ?)", raw.Topic, raw.Payload)
			}
			return own(s).exec("INSERT INTO "+table("outbox")+" (topic, payload, key, headers) VALUES (?, ?, ?, ?)",
				raw.Topic, raw.Payload, raw.Key, raw.Headers)
		},
	}
}
