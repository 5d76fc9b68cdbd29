// Package mysqlstore keeps outbox, inbox, dead letters and lanes in MariaDB 10.6 and up, or in
// MySQL 8.0.17 and up, with InnoDB tables.
//
// The driver is the caller's; the package imports none. With github.com/go-sql-driver/mysql:
//
//	db, err := sql.Open("mysql", "user:password@tcp(127.0.0.1:3306)/shop")
//	store, err := mysqlstore.New(db, mysqlstore.Config{})
//
// It needs no parameter in the data source name, and works with any but autocommit=0, which
// [Store.Migrate] and [Store.SchemaVersion] refuse. interpolateParams=true saves a round trip for
// each statement. The tables live next to the application's, in the same database; [Store.Migrate]
// creates them, and only when it is called.
//
// The store's own transactions, and so those that handlers run in, are at READ COMMITTED, for
// which a server with a binary log needs binlog_format=ROW or MIXED, the defaults. The caller's
// own may be at any level. Relays learn of the commits of other processes at their next poll.
package mysqlstore

import (
	"context"
	"database/sql"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
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
// concurrent use, and so are several stores, in several processes, on one database.
type Store struct {
	methods
	db         *sql.DB
	core       *sqlstore.Core[*sql.Tx]
	relays     *sqlstore.Core[*sql.Tx] // the same for the transactions of relays
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
	driver := newDatabase(db)
	core := &sqlstore.Core[*sql.Tx]{
		DB: driver, Callers: &guarded{database: driver}, SQL: common, Render: n.render, Gates: gates(own),
		Briefly: func(conn sqldb.Conn) sqldb.Conn { return briefly{conn} }, LockTimedOut: lockTimedOut,
		Classify: classify, ClassifyCaller: classifyCaller,
	}
	relays := &sqlstore.Core[*sql.Tx]{DB: relaying{driver}, SQL: common, Render: n.render, Classify: classify, ClassifyCaller: classifyCaller}
	s := &Store{methods: core, db: db, core: core, relays: relays, names: n, sql: own, migrations: migrations}
	core.Enqueue, core.Settle = s.enqueue, sqlstore.SettlePlan(s.sql.Settle)
	return s, nil
}

// RenewLanes implements [contract.Source].
func (s *Store) RenewLanes(ctx context.Context, req contract.LeaseRequest) (contract.Lease, error) {
	return s.relays.RenewLanes(ctx, req)
}

// LeaveLanes implements [contract.Source].
func (s *Store) LeaveLanes(ctx context.Context, node string) error {
	s.core.Signals.Leave(node)
	return s.relays.LeaveLanes(ctx, node)
}

// Ping reports whether the database answers. The error is unavailable if it does not.
func (s *Store) Ping(ctx context.Context) error {
	return s.core.Kind(s.core.Answer(ctx))
}
