package opener

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/migrate"
	"github.com/waybill-go/waybill/internal/redact"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/service"
)

// StoreConfig configures the store to open.
type StoreConfig struct {
	// URL is postgres://user:password@host:port/database, the same with mysql, mariadb or mongodb,
	// or sqlite:path.
	URL string

	// Schema and TablePrefix name the tables, as in the configuration of each store.
	Schema, TablePrefix string

	// ListenURL is that of pgstore.Config; other stores ignore it.
	ListenURL string

	// Create makes SQLite create a file that does not exist.
	Create bool
}

// Store is an opened store, whatever its transactions are.
type Store interface {
	lease.BatchStore
	inspect.Outbox
	inspect.Inbox
	inspect.InboxSizer
	inspect.Relays
	deadletter.Store
	deadletter.ReplayStore
	deadletter.Auditor
	deadletter.Canceller
	janitor.Store

	// Ping reports whether the database answers.
	Ping(ctx context.Context) error

	// SchemaVersion returns the version of the schema, 0 if there is none, and an error if this
	// release does not support it.
	SchemaVersion(ctx context.Context) (int, error)

	// Migrations returns the steps of the schema that this release knows.
	Migrations() []migrate.Migration

	// Migrate migrates the schema to a version, 0 for the newest, and returns the version.
	Migrate(ctx context.Context, source string, version int) (int, error)

	// Facts returns what the database reports about itself.
	Facts(ctx context.Context) (Facts, error)

	// Service returns a service over this store.
	Service(broker service.Broker, cfg service.Config) (Runner, error)

	// Address is the URL without its password.
	Address() string

	// Close ends the connections.
	Close() error
}

// Runner is a service, whatever its transactions are.
type Runner interface {
	// Run runs the service until ctx is done.
	Run(ctx context.Context) error

	// Health returns nil while the service does its work.
	Health() error

	// RelayStatus returns a snapshot of the relay, and false if there is none.
	RelayStatus() (relay.Status, bool)
}

// Facts are what a database reports about itself. Fields that do not apply are empty.
type Facts struct {
	Version   string
	TimeZone  string
	Isolation string
	Clock     time.Time

	User      string // the role that a session acts as
	Superuser bool

	// Connections is how many connections are open on the server, of MaxConnections; a process of
	// ours opens up to PoolSize, and a relay one more to listen.
	Connections, MaxConnections, PoolSize int
}

// OpenStore opens a store and makes sure that it answers. An error is [ErrURL] if the URL is
// not one that can be opened, and an [*UnreachableError] if the database does not answer.
func OpenStore(ctx context.Context, cfg StoreConfig) (Store, error) {
	store, err := NewStore(cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if err := store.Ping(ctx); err != nil {
		_ = store.Close() // it was never in use
		return nil, &UnreachableError{What: "store", Address: store.Address(), Err: err}
	}
	return store, nil
}

// NewStore is [OpenStore] without querying the database.
func NewStore(cfg StoreConfig) (Store, error) {
	if err := errors.Join(checkPassword("store", cfg.URL), checkPassword("postgres.listen_url", cfg.ListenURL)); err != nil {
		return nil, err
	}
	switch {
	case IsPostgres(cfg.URL):
		return newPostgres(cfg)
	case isMySQL(cfg.URL):
		return newMySQL(cfg)
	case schemeOf(cfg.URL) == "sqlite":
		return newSQLite(cfg)
	case isMongo(cfg.URL):
		return newMongo(cfg)
	}
	return nil, unknownStore(cfg.URL, "postgres://…, mysql://…, mongodb://… and sqlite:path")
}

// SQLStore is a store for database/sql.
type SQLStore interface {
	service.Store[*sql.Tx]
	inspect.Outbox
	deadletter.Store

	// Migrate is that of [Store].
	Migrate(ctx context.Context, source string, version int) (int, error)
}

// OpenSQL opens a store for database/sql, and the database itself, which the caller must close.
// The errors are those of [OpenStore].
func OpenSQL(ctx context.Context, cfg StoreConfig) (*sql.DB, SQLStore, error) {
	if err := checkPassword("store", cfg.URL); err != nil {
		return nil, nil, err
	}
	open := newSQLiteSQL
	switch {
	case IsPostgres(cfg.URL):
		open = newPostgresSQL
	case isMySQL(cfg.URL):
		open = newMySQLSQL
	case schemeOf(cfg.URL) != "sqlite":
		return nil, nil, unknownStore(cfg.URL, "postgres://…, mysql://… and sqlite:path")
	}
	db, store, err := open(cfg)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if err := db.PingContext(ctx); err != nil {
		_ = db.Close() // it was never in use
		return nil, nil, &UnreachableError{What: "store", Address: redact.URL(cfg.URL), Err: err}
	}
	return db, store, nil
}

func unknownStore(url, known string) error {
	return fmt.Errorf("%w: store %s: %s are known", ErrURL, redact.URL(url), known)
}
