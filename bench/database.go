package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-sql-driver/mysql"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/store/mysqlstore"
	"github.com/waybill-go/waybill/store/sqlitestore"
)

// dialect is how MariaDB and SQLite differ.
type dialect struct {
	name    string
	writers int    // connections that write concurrently
	version string // the query for it
	tables  []string
	empty   string // begins the statement that empties a table
	ignore  string // begins an INSERT that stores nothing
	orNone  string // ends it
}

// The lean table is the least that a hand-written outbox needs: a position, and the message.
var (
	mariaDB = dialect{
		name: "MariaDB", writers: connections, version: "SELECT version()", empty: "TRUNCATE TABLE ", ignore: "INSERT IGNORE",
		tables: []string{
			`CREATE TABLE business (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, customer VARCHAR(255) NOT NULL, amount BIGINT NOT NULL)`, `
CREATE TABLE lean (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, message_id VARCHAR(255) NOT NULL, topic VARCHAR(255) NOT NULL, message_key VARCHAR(255) NOT NULL,
    type VARCHAR(255) NOT NULL, source VARCHAR(255) NOT NULL, tenant VARCHAR(255) NOT NULL, payload LONGBLOB NOT NULL, time BIGINT NOT NULL)`,
		},
	}
	sqLite = dialect{
		name: "SQLite", writers: 1, version: "SELECT sqlite_version()", empty: "DELETE FROM ", ignore: "INSERT", orNone: "ON CONFLICT DO NOTHING",
		tables: []string{
			`CREATE TABLE business (id INTEGER PRIMARY KEY, customer TEXT NOT NULL, amount INTEGER NOT NULL)`, `
CREATE TABLE lean (
    id INTEGER PRIMARY KEY, message_id TEXT NOT NULL, topic TEXT NOT NULL, message_key TEXT NOT NULL,
    type TEXT NOT NULL, source TEXT NOT NULL, tenant TEXT NOT NULL, payload BLOB NOT NULL, time INTEGER NOT NULL)`,
		},
	}
)

// filled are the tables that contenders fill.
var filled = []string{"business", "lean", "waybill_outbox", "waybill_outbox_archive", "waybill_inbox"}

// database is a separate database, with the tables of waybill, of the business and the lean one.
type database struct {
	*bench
	dialect
	outgoing
	db     *sql.DB
	store  sqlStore
	writer *outbox.Writer[*sql.Tx]
	remove func() // drops the database, after it is closed
}

// sqlStore is what contenders need of a store on database/sql.
type sqlStore interface {
	outbox.Store[*sql.Tx]
	contract.Inbox[*sql.Tx]
	contract.Source
}

// openMariaDB creates a database on the server.
func openMariaDB(ctx context.Context, b *bench) (*database, error) {
	cfg, err := mysql.ParseDSN(b.mysql)
	if err != nil {
		return nil, fmt.Errorf("-mysql: %w", err)
	}
	server, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		return nil, err
	}
	name := newName()
	if _, err := server.ExecContext(ctx, "CREATE DATABASE "+name); err != nil {
		_ = server.Close() // it holds nothing of ours
		return nil, fmt.Errorf("MariaDB: %w", err)
	}
	d := &database{bench: b, dialect: mariaDB, remove: func() {
		_, _ = server.Exec("DROP DATABASE " + name) // leftovers have the prefix
		_ = server.Close()
	}}
	cfg.DBName = name
	return d.open(ctx, "mysql", cfg.FormatDSN(), func(db *sql.DB) (sqlStore, error) {
		store, err := mysqlstore.New(db, mysqlstore.Config{})
		if err != nil {
			return nil, err
		}
		_, err = store.Migrate(ctx, mysqlstore.MigrateOptions{Source: "bench"})
		return store, err
	})
}

// sqliteOptions are those that sqlitestore recommends.
const sqliteOptions = "_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_txlock=immediate"

// openSQLite creates a file in a new directory.
func openSQLite(ctx context.Context, b *bench) (*database, error) {
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		return nil, err
	}
	d := &database{bench: b, dialect: sqLite, remove: func() { _ = os.RemoveAll(dir) }}
	return d.open(ctx, "sqlite", "file:"+filepath.Join(dir, "bench.db")+"?"+sqliteOptions, func(db *sql.DB) (sqlStore, error) {
		store, err := sqlitestore.New(db, sqlitestore.Config{})
		if err != nil {
			return nil, err
		}
		_, err = store.Migrate(ctx, sqlitestore.MigrateOptions{Source: "bench"})
		return store, err
	})
}

// open connects, and creates the store by migrated and the other tables. After an error nothing is
// left.
func (d *database) open(ctx context.Context, driver, dsn string, migrated func(*sql.DB) (sqlStore, error)) (*database, error) {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		d.remove()
		return nil, err
	}
	d.db, d.payload = db, make([]byte, d.bench.payload)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	if d.store, err = migrated(db); err == nil {
		err = d.prepare(ctx)
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *database) prepare(ctx context.Context) (err error) {
	for _, table := range d.tables {
		if err := d.exec(ctx, table); err != nil {
			return err
		}
	}
	var version string
	if err := d.db.QueryRowContext(ctx, d.version).Scan(&version); err != nil {
		return err
	}
	version, _, _ = strings.Cut(version, "-")
	d.name += " " + version
	d.writer, err = outbox.NewWriter(d.store, outbox.Config{Source: "bench", Observer: quiet})
	return err
}

func (d *database) close() {
	_ = d.db.Close() // it is removed next
	d.remove()
}

func (d *database) exec(ctx context.Context, query string, args ...any) error {
	if _, err := d.db.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("%.60s …: %w", strings.TrimSpace(query), err)
	}
	return nil
}

// emptyAll empties the tables that contenders fill.
func (d *database) emptyAll(ctx context.Context) error {
	for _, table := range filled {
		if err := d.exec(ctx, d.empty+table); err != nil {
			return err
		}
	}
	return nil
}

// inTransaction runs do in a transaction, as is usual with database/sql.
func (d *database) inTransaction(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback() // err says more
		return err
	}
	return tx.Commit()
}
