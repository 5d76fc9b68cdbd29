package opener

import (
	"context"
	"database/sql"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/waybill-go/waybill/internal/redact"
	"github.com/waybill-go/waybill/service"
	"github.com/waybill-go/waybill/store/pgstore"
	"github.com/waybill-go/waybill/store/pgstore/pgadmin"
)

// leastConns is how many connections a relay with the default settings can use.
const leastConns = 8

// maxSQLConns is how many connections a process has for database/sql at most.
const maxSQLConns = 20

// postgres is a Store of PostgreSQL.
type postgres struct {
	*pgstore.Store[pgx.Tx]
	*pgadmin.Admin
	pool      *pgxpool.Pool
	address   string
	listenURL string
}

var _ Store = (*postgres)(nil)

func newPostgres(cfg StoreConfig) (Store, error) {
	pool, err := newPool(cfg.URL)
	if err != nil {
		return nil, err
	}
	store, err := pgstore.New(pool, pgstore.Config{Schema: cfg.Schema, TablePrefix: cfg.TablePrefix, ListenURL: cfg.ListenURL})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &postgres{Store: store, Admin: store.Admin(), pool: pool, address: redact.URL(cfg.URL), listenURL: cfg.ListenURL}, nil
}

// newPool returns a pool that connects when it is used.
func newPool(url string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, badURL("store", url, err)
	}
	if !strings.Contains(url, "pool_max_conns") {
		cfg.MaxConns = max(cfg.MaxConns, leastConns)
	}
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "waybill"
	}
	return pgxpool.NewWithConfig(context.Background(), cfg)
}

func (p *postgres) Migrate(ctx context.Context, source string, version int) (int, error) {
	return p.Store.Migrate(ctx, pgstore.MigrateOptions{Source: source, Version: version})
}

func (p *postgres) Facts(ctx context.Context) (Facts, error) {
	f, err := p.SessionFacts(ctx)
	return Facts{
		Version: "PostgreSQL " + f.ServerVersion, TimeZone: f.TimeZone, Isolation: f.Isolation, Clock: f.Clock,
		User: f.User, Superuser: f.Superuser, Connections: f.Connections, MaxConnections: f.MaxConnections,
		PoolSize: int(p.pool.Config().MaxConns),
	}, err
}

func (p *postgres) Service(broker service.Broker, cfg service.Config) (Runner, error) {
	return service.New(p.Store, broker, cfg)
}

func (p *postgres) Address() string { return p.address }

func (p *postgres) Close() error {
	p.pool.Close()
	return nil
}

// newPostgresSQL is newPostgres for database/sql. Names that a statement does not qualify are
// looked up in the schema of the store.
func newPostgresSQL(cfg StoreConfig) (*sql.DB, SQLStore, error) {
	conn, err := pgx.ParseConfig(cfg.URL)
	if err != nil {
		return nil, nil, badURL("store", cfg.URL, err)
	}
	conn.RuntimeParams["search_path"] = pgx.Identifier{cfg.Schema}.Sanitize()
	db := stdlib.OpenDB(*conn)
	db.SetMaxOpenConns(maxSQLConns)
	db.SetMaxIdleConns(maxSQLConns)
	store, err := pgstore.NewSQL(db, pgstore.Config{Schema: cfg.Schema, TablePrefix: cfg.TablePrefix})
	if err != nil {
		_ = db.Close() // it was never used
		return nil, nil, err
	}
	return db, postgresSQL{store}, nil
}

// IsPostgres reports whether a store's URL is one of PostgreSQL.
func IsPostgres(url string) bool {
	scheme := schemeOf(url)
	return scheme == "postgres" || scheme == "postgresql"
}

// postgresSQL is an SQLStore of PostgreSQL.
type postgresSQL struct{ *pgstore.Store[*sql.Tx] }

var _ SQLStore = postgresSQL{}

func (p postgresSQL) Migrate(ctx context.Context, source string, version int) (int, error) {
	return p.Store.Migrate(ctx, pgstore.MigrateOptions{Source: source, Version: version})
}
