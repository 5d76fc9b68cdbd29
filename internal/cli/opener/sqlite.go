package opener

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"

	"github.com/waybill-go/waybill/internal/cli/opener/sqlitefile"
	"github.com/waybill-go/waybill/internal/redact"
	"github.com/waybill-go/waybill/service"
)

// sqlite is a Store of SQLite.
type sqlite struct {
	sqlitefile.Store
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

// SQLiteFile returns the path of a store sqlite:path, and "" for that of another store or a database
// in memory.
func SQLiteFile(url string) string {
	path, is := strings.CutPrefix(url, "sqlite:")
	if !is || path == ":memory:" {
		return ""
	}
	return path
}

func openSQLite(cfg StoreConfig) (*sql.DB, sqlitefile.Store, error) {
	_, path, _ := strings.Cut(cfg.URL, ":")
	if path == "" {
		return nil, sqlitefile.Store{}, fmt.Errorf("%w: store %s: the path of a file is missing", ErrURL, cfg.URL)
	}
	return sqlitefile.Open(path, cfg.TablePrefix, cfg.Create)
}

// Ping reports a bad path more clearly than the driver does.
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

// Facts returns only a version: SQLite runs in this process, by its clock and time zone, and one
// transaction writes at a time.
func (s *sqlite) Facts(ctx context.Context) (Facts, error) {
	var f Facts
	err := s.db.QueryRowContext(ctx, `SELECT 'SQLite ' || sqlite_version()`).Scan(&f.Version)
	return f, err
}

func (s *sqlite) Service(broker service.Broker, cfg service.Config) (Runner, error) {
	return service.New(s.Store.Store, broker, cfg)
}

func (s *sqlite) Address() string { return s.address }

func (s *sqlite) Close() error { return s.db.Close() }

func newSQLiteSQL(cfg StoreConfig) (*sql.DB, SQLStore, error) {
	db, store, err := openSQLite(cfg)
	if err != nil {
		return nil, nil, err
	}
	return db, store, nil
}
