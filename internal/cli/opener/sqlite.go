package opener

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/waybill-go/waybill/internal/redact"
	"github.com/waybill-go/waybill/service"
	"github.com/waybill-go/waybill/store/sqlitestore"
)

// sqliteOptions make connections wait for each other's writes instead of failing, and let
// readers and the one writer work beside each other; each transaction takes the write lock
// when it begins, because one that takes it later can't wait for it.
const sqliteOptions = "_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)&_txlock=immediate"

// maxSQLiteConns is how many connections a process has to one file. One of them can write at
// a time.
const maxSQLiteConns = 4

// sqlite is a Store of SQLite.
type sqlite struct {
	*sqlitestore.Store
	db      *sql.DB
	address string
}

var _ Store = (*sqlite)(nil)

func newSQLite(cfg StoreConfig) (Store, error) {
	db, store, err := openSQLite(cfg)
	if err != nil {
		return nil, err
	}
	return &sqlite{Store: store, db: db, address: redact.URL(cfg.URL)}, nil
}

func openSQLite(cfg StoreConfig) (*sql.DB, *sqlitestore.Store, error) {
	dsn, err := sqliteDSN(cfg)
	if err != nil {
		return nil, nil, err
	}
	if cfg.Create {
		createPrivately(SQLiteFile(cfg.URL))
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(maxSQLiteConns)
	db.SetMaxIdleConns(maxSQLiteConns)
	store, err := sqlitestore.New(db, sqlitestore.Config{TablePrefix: cfg.TablePrefix})
	if err != nil {
		_ = db.Close() // it was never in use
		return nil, nil, err
	}
	return db, store, nil
}

// SQLiteFile returns the path of a store sqlite:path, and "" for that of another store or a database
// in memory.
func SQLiteFile(url string) string {
	path, is := strings.CutPrefix(url, "sqlite:")
	if !is || path == ":memory:" {
		return ""
	}
	return path
}

// createPrivately makes the file, unless there is one, readable to its owner alone, since it will hold
// payloads. SQLite gives its -wal and -shm the same mode. What fails here fails again, with a better
// error, when the file is opened.
func createPrivately(path string) {
	if path == "" {
		return
	}
	if f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
		_ = f.Close() // it is empty
	}
}

// sqliteDSN turns sqlite:path into the driver's own form.
func sqliteDSN(cfg StoreConfig) (string, error) {
	_, path, _ := strings.Cut(cfg.URL, ":")
	if path == "" {
		return "", fmt.Errorf("%w: store %s: the path of a file is missing", ErrURL, cfg.URL)
	}
	mode := "rw"
	if cfg.Create {
		mode = "rwc"
	}
	file := &url.URL{Path: path}
	return "file:" + file.EscapedPath() + "?mode=" + mode + "&" + sqliteOptions, nil
}

// Ping says what is wrong with the path better than the driver does.
func (s *sqlite) Ping(ctx context.Context) error {
	err := s.Store.Ping(ctx)
	if err == nil {
		return nil
	}
	if _, statErr := os.Stat(strings.TrimPrefix(s.address, "sqlite:")); statErr != nil {
		return fmt.Errorf("%w; to make a new file run: waybill migrate", statErr)
	}
	return err
}

func (s *sqlite) Migrate(ctx context.Context, source string, version int) (int, error) {
	return s.Store.Migrate(ctx, sqlitestore.MigrateOptions{Source: source, Version: version})
}

// Facts has a version only: SQLite runs in this process, by its clock and time zone, and one
// transaction writes at a time.
func (s *sqlite) Facts(ctx context.Context) (Facts, error) {
	var f Facts
	err := s.db.QueryRowContext(ctx, `SELECT 'SQLite ' || sqlite_version()`).Scan(&f.Version)
	return f, err
}

func (s *sqlite) Service(broker service.Broker, cfg service.Config) (Runner, error) {
	return service.New(s.Store, broker, cfg)
}

func (s *sqlite) Address() string { return s.address }

func (s *sqlite) Close() error { return s.db.Close() }

// sqliteSQL is an SQLStore of SQLite.
type sqliteSQL struct{ *sqlitestore.Store }

var _ SQLStore = sqliteSQL{}

func (s sqliteSQL) Migrate(ctx context.Context, source string, version int) (int, error) {
	return s.Store.Migrate(ctx, sqlitestore.MigrateOptions{Source: source, Version: version})
}

func newSQLiteSQL(cfg StoreConfig) (*sql.DB, SQLStore, error) {
	db, store, err := openSQLite(cfg)
	if err != nil {
		return nil, nil, err
	}
	return db, sqliteSQL{store}, nil
}
