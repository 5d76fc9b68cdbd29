// Package sqlitefile opens files of SQLite, and links nothing of other databases.
package sqlitefile

import (
	"context"
	"database/sql"
	"net/url"
	"os"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/waybill-go/waybill/store/sqlitestore"
)

// options make connections wait for each other's writes instead of failing, and let
// readers and the one writer work concurrently; each transaction takes the write lock
// when it begins, because one that takes it later can't wait for it.
const options = "_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)&_txlock=immediate"

// maxConns is how many connections a process has to one file. One of them can write at a time.
const maxConns = 4

// Store is the store of a file.
type Store struct{ *sqlitestore.Store }

// Migrate migrates the schema to a version, 0 for the newest, and returns the version.
func (s Store) Migrate(ctx context.Context, source string, version int) (int, error) {
	return s.Store.Migrate(ctx, sqlitestore.MigrateOptions{Source: source, Version: version})
}

// Open returns a store in the file at path, and its database, which the caller closes in the
// end. The file is opened when the database is first used. With create it is made if it does not
// exist, readable to its owner alone, since it will hold payloads.
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
		_ = db.Close() // it was never in use
		return nil, Store{}, err
	}
	return db, Store{store}, nil
}

// createPrivately makes the file, unless there is one, readable to its owner alone. SQLite gives its
// -wal and -shm the same mode. What fails here fails again, with a better error, when the file is
// opened.
func createPrivately(path string) {
	if path == ":memory:" {
		return
	}
	if f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
		_ = f.Close() // it is empty
	}
}
