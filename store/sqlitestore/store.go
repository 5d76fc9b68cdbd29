// Package sqlitestore keeps outbox, inbox, dead letters and lanes in SQLite 3.37 and up,
// for programs that run on one machine.
//
// The driver is the caller's; the package imports none. With modernc.org/sqlite:
//
//	db, err := sql.Open("sqlite", "file:app.db?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_txlock=immediate")
//	store, err := sqlitestore.New(db, sqlitestore.Config{})
//
// busy_timeout makes a transaction wait for the writer before it, instead of failing with a
// conflict. _txlock=immediate does so for the caller's own transactions from their first
// statement on; without it one that reads first and enqueues later may fail with a conflict
// in between. The store's own transactions write first in any case.
//
// SQLite has one writer at a time, so there is one lane, and a handler holds up every other
// writer until it has ended. The tables live next to the application's, in the same file;
// [Store.Migrate] creates them, and only when it is called.
package sqlitestore

import (
	"context"
	"database/sql"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/migrate"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// Config names the tables.
type Config struct {
	// TablePrefix is put before the name of each table. Any text of up to 40 bytes without
	// control characters and braces; names are quoted. Optional; the default is "waybill_".
	TablePrefix string
}

// methods are those that all SQL stores share.
type methods = sqlstore.Methods[*sql.Tx]

// Store implements the contracts of outbox, relay, inbox, deadletter and janitor. It is safe for
// concurrent use, and so are several stores, in several processes, on one file.
type Store struct {
	methods
	core       *sqlstore.Core[*sql.Tx]
	names      names
	sql        statements
	migrations []migrate.Migration // not rendered
}

var _ sqlstore.Contracts[*sql.Tx] = (*Store)(nil)

// New returns a store that uses db. The caller closes db after the last use of the store. An
// error names the field of cfg that is wrong; the database is not asked.
func New(db *sql.DB, cfg Config) (*Store, error) {
	if db == nil {
		return nil, &waybill.InvalidError{Field: "db", Reason: "is required"}
	}
	n, err := newNames(cfg.TablePrefix)
	if err != nil {
		return nil, err
	}
	migrations, err := loadMigrations()
	if err != nil {
		return nil, err
	}
	common, own, err := newStatements(n)
	if err != nil {
		return nil, err
	}
	core := &sqlstore.Core[*sql.Tx]{
		DB:  &locked{DB: sqldb.DB{DB: db, Encode: encode, Prepared: sqldb.NewPrepared()}, lock: own.Lock},
		SQL: common, Render: n.render, Classify: classify, ClassifyCaller: classifyCaller, LockTimedOut: lockTimedOut,
	}
	s := &Store{methods: core, core: core, names: n, sql: own, migrations: migrations}
	core.Enqueue, core.Settle = s.enqueue, sqlstore.SettlePlan(s.sql.Settle)
	return s, nil
}

// Ping reports whether the database answers. The error is unavailable if it does not.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.core.DB.Exec(ctx, "SELECT 1")
	return s.core.Kind(err)
}
