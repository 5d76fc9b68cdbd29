// Package pgstore keeps outbox, inbox, dead letters and lanes in PostgreSQL 14 and up.
//
// [New] makes a store for pgx transactions, [NewSQL] one for *sql.Tx, which users of gorm,
// ent, bun and sqlx have under theirs. Both run the same SQL. The tables live in the
// application's own database, in a schema of their own; [Store.Migrate] creates them, and
// only when it is called.
//
// One Store value should serve a process: an outbox writer wakes the relays that share it
// without a detour through the database. Relays of others are notified by a trigger; for that a
// running relay keeps a connection in addition to the pool's.
package pgstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/migrate"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
	"github.com/waybill-go/waybill/store/pgstore/pgadmin"
)

// Config names the tables.
type Config struct {
	// Schema is the schema that holds the tables. Any name of up to 40 bytes without control
	// characters, braces and '$'; it is quoted. Optional; the default is "waybill".
	Schema string

	// TablePrefix is put before the name of each table and function, under the rules of
	// Schema. Optional; the default is none.
	TablePrefix string

	// ListenURL is a connection string, for a separate connection on which running relays are
	// notified of commits. It must reach the server itself: LISTEN does not work through a pooler
	// that hands out connections per transaction, such as PgBouncer's mode "transaction". Optional;
	// the default is the settings of the pool, for [NewSQL] only if the driver is pgx's stdlib
	// package, unwrapped. With any other driver set it: else relays learn of the commits of others
	// at their next poll, and report that once.
	ListenURL string

	// GateTimeout is how long a delivery waits while another transaction handles the same
	// message. After that the inbox returns [inbox.ErrBusy], as a conflict, and a consumer has
	// the message delivered again later. 1 ms to 1 h. Optional; the default is 1 s. With
	// database/sql it takes two round trips.
	GateTimeout time.Duration

	// CompactInbox keeps a processed message in about 125 bytes, indexes included, instead of three
	// times that amount. A record then has a 16-byte hash of the message's key and one of its
	// payload, but not the message's id, if that is not its key, nor extra data; times are cut
	// to ten seconds. What was recorded before stays valid. All consumers on the tables must
	// agree: stop those without it before the first with it starts, and do not go back before
	// the retention has passed. Optional.
	CompactInbox bool
}

// Store keeps what the packages outbox, relay, consumer, inbox, deadletter, schedule, saga, janitor and inspect work on, and
// implements their contracts. It is safe for concurrent use.
type Store[Tx any] struct {
	contracts[Tx]

	engine     *engine[Tx]
	admin      *pgadmin.Admin
	migrations []migrate.Migration // not rendered
}

var (
	_ sqlstore.Contracts[pgx.Tx]  = (*Store[pgx.Tx])(nil)
	_ sqlstore.Contracts[*sql.Tx] = (*Store[*sql.Tx])(nil)
)

// New returns a store that uses pool and takes pgx transactions. The caller closes pool
// after the last use of the store. An error names the field of cfg that is wrong; the
// database is not asked.
func New(pool *pgxpool.Pool, cfg Config) (*Store[pgx.Tx], error) {
	if pool == nil {
		return nil, &waybill.InvalidError{Field: "pool", Reason: "is required"}
	}
	gate, err := newPatience(cfg.GateTimeout)
	if err != nil {
		return nil, err
	}
	return newStore[pgx.Tx](pgxDriver{pool, gate}, cfg, poolConnector(pool))
}

// NewSQL returns a store that uses db and takes *sql.Tx. The driver is the caller's; pgx's
// stdlib package and lib/pq work; with any but the first, set Config.ListenURL:
//
//	store, err := pgstore.NewSQL(db, pgstore.Config{ListenURL: "postgres://user:password@host/database"})
//
// The caller closes db after the last use of the store.
func NewSQL(db *sql.DB, cfg Config) (*Store[*sql.Tx], error) {
	if db == nil {
		return nil, &waybill.InvalidError{Field: "db", Reason: "is required"}
	}
	gate, err := newPatience(cfg.GateTimeout)
	if err != nil {
		return nil, err
	}
	return newStore[*sql.Tx](&sqlDriver{sqldb.DB{DB: db, Isolation: sql.LevelReadCommitted, Encode: encodeArray}, gate}, cfg, sqlConnector(db))
}

// newStore makes a store that listens through connect unless cfg names a server to listen to.
func newStore[Tx any](db database[Tx], cfg Config, connect connector) (*Store[Tx], error) {
	n, err := newNames(cfg.Schema, cfg.TablePrefix)
	if err != nil {
		return nil, err
	}
	if cfg.ListenURL != "" {
		if connect, err = urlConnector(cfg.ListenURL); err != nil {
			return nil, err
		}
	}
	migrations, err := loadMigrations()
	if err != nil {
		return nil, err
	}
	common, own, err := newStatements(n)
	if err != nil {
		return nil, err
	}
	e := newEngine(db, cfg, n, common, own)
	e.listener = &listener{connect: connect, sql: own, channel: n.channel, sleeper: e.sleeper}
	admin, err := pgadmin.New(pgadmin.Database{
		DB: e.core.DB, Schema: n.schema, Prefix: n.prefix, Render: n.render, Kind: e.core.Kind, Days: e.archiveDays,
	})
	if err != nil {
		return nil, err
	}
	return &Store[Tx]{contracts: e, engine: e, admin: admin, migrations: migrations}, nil
}

// Admin returns what operators ask of the database: roles, and what keeps it from working well.
func (s *Store[Tx]) Admin() *pgadmin.Admin { return s.admin }

// Ping reports whether the database answers. The error is unavailable if it does not.
func (s *Store[Tx]) Ping(ctx context.Context) error {
	_, err := s.engine.core.DB.Exec(ctx, "SELECT 1")
	return s.engine.core.Kind(err)
}
