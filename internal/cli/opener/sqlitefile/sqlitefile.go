// Package sqlitefile opens SQLite files, and links no other database.
package sqlitefile

import (
	"context"
	"database/sql"
	"net/url"
	"os"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/waybill-go/waybill/store/sqlitestore"
)

// options make connections wait for each other's writes instead of failing, and let readers and the
// one writer work concurrently; each transaction takes the write lock when it begins, because one
// that takes it later cannot wait for it.
const options = "_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)&_txlock=immediate"

// maxConns is how many connections a process has to one file. Only one of them can write at once.
const maxConns = 4

// Store is the store of a file.
type Store struct{ *sqlitestore.Store }

// Migrate migrates the schema to a version, 0 for the newest, and returns the version.
func (s Store) Migrate(ctx context.Context, source string, version int) (int, error) {
	return s.Store.Migrate(ctx, sqlitestore.MigrateOptions{Source: source, Version: version})
}

// Open returns a store in the file at path, and its database, which the caller must close. The file
// is opened when the database is first used. With create it is created if it does not exist,
// readable only by its owner, since it will hold payloads.
func Open(path, tablePrefix string, create bool) (*sql.DB, Store, error) {
	mode := "rw"
	if create {
		mode = "rwc"
		createPrivately(path)
	}
	file := &url.URL{Path: path}
	db, err := sql.Open("sqlite", "file:"+file.EscapedPath()+"?mode="+mode+"&"+options)
	if err != nil {
		return nil, Store{}, err
	}
	db.SetMaxOpenConns(maxConns)
	db.SetMaxIdleConns(maxConns)
	store, err := sqlitestore.New(db, sqlitestore.Config{TablePrefix: tablePrefix})
	if err != nil {
		_ = db.Close() // it was never used
		return nil, Store{}, err
	}
	return db, Store{store}, nil
}

// createPrivately creates the file, unless it exists, readable only by its owner. SQLite gives its
// -wal and -shm the same mode. A failure here recurs, with a better error, when the file is opened.
func createPrivately(path string) {
	if path == ":memory:" {
		return
	}
	if f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
		_ = f.Close() // it is empty
	}
}
