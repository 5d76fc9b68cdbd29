package conformance

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/store/pgstore"
	"github.com/waybill-go/waybill/store/storetest"
)

// postgresSetup is a way to reach a server and to set up a store.
type postgresSetup struct {
	name   string
	params map[string]string // of each session
	cfg    pgstore.Config    // Schema gets a number behind it
	sql    bool              // through database/sql
	url    string            // of the server, if not postgresURL
}

//test:setup
func TestPostgresStore(t *testing.T) {
	t.Parallel()
	for _, setup := range []postgresSetup{
		{name: "pgx"},
		{name: "through PgBouncer", url: bouncerURL(t), cfg: pgstore.Config{ListenURL: postgresURL()}},
	} {
		t.Run(setup.name, setup.run)
	}
}

//test:setup
func TestPostgresStore_Setups(t *testing.T) {
	t.Parallel()
	for _, setup := range []postgresSetup{
		{name: "sql, time zone", params: map[string]string{"TimeZone": "Asia/Tokyo"}, sql: true},
		{name: "sql that listens, repeatable read", params: map[string]string{"default_transaction_isolation": "repeatable read"}, sql: true, cfg: pgstore.Config{ListenURL: postgresURL()}},
		{name: "serializable, odd names", params: map[string]string{"default_transaction_isolation": "serializable"}, cfg: pgstore.Config{Schema: `way-bill"x`, TablePrefix: `My "pre'fix %`}},
	} {
		t.Run(setup.name, setup.run)
	}
}

func (s postgresSetup) run(t *testing.T) {
	t.Parallel()
	p := newPostgresAt(t, cmp.Or(s.url, postgresURL()), s.params, s.cfg)
	if s.sql {
		storetest.Run(t, p.sqlHarness())
	} else {
		storetest.Run(t, p.pgxHarness())
	}
}

func postgresURL() string {
	if u := os.Getenv("POSTGRES_URL"); u != "" {
		return u
	}
	return "postgres://postgres@127.0.0.1:5432/test?sslmode=disable"
}

// bouncerURL leads to the same database through PgBouncer.
func bouncerURL(t *testing.T) string {
	t.Helper()
	through, err := faultproxy.PgBouncerURL()
	if err != nil {
		t.Fatal(err)
	}
	return through
}

// postgres is a pool for one run of the suite. Each test has a schema of its own.
type postgres struct {
	pool *pgxpool.Pool
	db   *sql.DB // on the pool
	cfg  pgstore.Config
	free chan pgstore.Config // schemas, empty
}

func newPostgres(t *testing.T, params map[string]string, cfg pgstore.Config) *postgres {
	t.Helper()
	return newPostgresAt(t, postgresURL(), params, cfg)
}

func newPostgresAt(t *testing.T, server string, params map[string]string, cfg pgstore.Config) *postgres {
	t.Helper()
	u, err := url.Parse(server)
	must(t, err)
	q := u.Query()
	q.Set("pool_max_conns", "12")
	q.Set("synchronous_commit", "off") // a crash of the server is another test's story
	for name, value := range params {
		q.Set(name, value)
	}
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // newer releases of pgx take a plus for one
	pool, err := pgxpool.New(context.Background(), u.String())
	if err == nil {
		err = pool.Ping(context.Background())
	}
	if err != nil {
		t.Fatalf("PostgreSQL does not answer (%v); start it with: make services", err)
	}
	t.Cleanup(pool.Close)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { db.Close() })
	p := &postgres{pool: pool, db: db, cfg: cfg, free: make(chan pgstore.Config, 1000)}
	t.Cleanup(func() {
		for len(p.free) > 0 {
			p.drop(t, <-p.free)
		}
	})
	return p
}

// postgresStore is a store with its schema.
type postgresStore[Tx any] struct {
	*pgstore.Store[Tx]
	cfg     pgstore.Config
	advance time.Duration
}

func (s *postgresStore[Tx]) table(name string) string { return tableOf(s.cfg, name) }

// breakSQL fails, and its transaction with it.
const breakSQL = "SELECT 1 / 0"

func (s *postgresStore[Tx]) effectSQL() string {
	return "INSERT INTO " + s.table("effects") + " (name) VALUES ($1)"
}

// schema returns a schema for one test. It is used again by the next one, because emptying
// it takes a tenth of the time of making it; after a failure it is dropped.
func (p *postgres) schema(t *testing.T) pgstore.Config {
	t.Helper()
	var cfg pgstore.Config
	select {
	case cfg = <-p.free:
	default:
		cfg = p.newSchema(t)
	}
	t.Cleanup(func() {
		if t.Failed() {
			p.drop(t, cfg)
			return
		}
		_, err := p.pool.Exec(context.Background(), wipeSQL(cfg))
		must(t, err)
		p.free <- cfg
	})
	return cfg
}

func (p *postgres) newSchema(t *testing.T) pgstore.Config {
	t.Helper()
	cfg := p.cfg
	if cfg.Schema == "" {
		cfg.Schema = "t"
	}
	cfg.Schema += "_" + strings.ReplaceAll(waybill.NewID(), "-", "")[12:]
	store, err := pgstore.New(p.pool, cfg)
	must(t, err)
	_, err = store.Migrate(context.Background(), pgstore.MigrateOptions{LockWait: patience, Source: "raw"})
	must(t, err)
	_, err = p.pool.Exec(context.Background(), "CREATE TABLE "+tableOf(cfg, "effects")+" (name text)")
	must(t, err)
	return cfg
}

func (p *postgres) drop(t *testing.T, cfg pgstore.Config) {
	stmt := "DROP SCHEMA IF EXISTS " + pgx.Identifier{cfg.Schema}.Sanitize() + " CASCADE"
	if _, err := p.pool.Exec(context.Background(), stmt); err != nil {
		t.Errorf("clean up: %v", err)
	}
}

func tableOf(cfg pgstore.Config, name string) string {
	return pgx.Identifier{cfg.Schema, cfg.TablePrefix + name}.Sanitize()
}

// wipeSQL empties a schema and sets its clock right.
func wipeSQL(cfg pgstore.Config) string {
	var b strings.Builder
	for _, name := range []string{
		"outbox", "outbox_waiting", "outbox_archive", "outbox_ids", "scheduled", "schedules", "sagas", "saga_log", "dead_letters",
		"dead_letter_changes", "dead_letter_sums", "audit_log", "inbox", "inbox_compact", "inbox_scopes", "inbox_leases", "idempotency_responses", "consumer_attempts", "consumer_offsets", "relays", "replays", "traffic", "effects",
	} {
		fmt.Fprintf(&b, "DELETE FROM %s;\n", tableOf(cfg, name))
	}
	fmt.Fprintf(&b, "UPDATE %s SET owner = NULL, since = NULL, epoch = 0;\n", tableOf(cfg, "relay_lanes"))
	return b.String() + clockSQL(cfg, 0)
}

func clockSQL(cfg pgstore.Config, offset time.Duration) string {
	return fmt.Sprintf(`CREATE OR REPLACE FUNCTION %s() RETURNS timestamptz LANGUAGE sql VOLATILE
		AS 'SELECT clock_timestamp() + interval ''%d microseconds'''`, tableOf(cfg, "clock"), offset.Microseconds())
}

// identities are the columns of counters.
var identities = map[storetest.Counter]string{storetest.Positions: "position", storetest.DeadLetters: "number"}

// postgresHarness holds what does not depend on the kind of transaction.
func postgresHarness[Tx any](p *postgres, open func(cfg pgstore.Config) (*pgstore.Store[Tx], error)) storetest.Harness[Tx] {
	own := func(s storetest.Store[Tx]) *postgresStore[Tx] { return s.(*postgresStore[Tx]) }
	return storetest.Harness[Tx]{
		Features: storetest.Features{Lanes: 64, Traffic: true, ConcurrentWriters: true, Persists: true, HearsCommits: true, InboxBatches: true, Offsets: true, Schedules: true, Sagas: true, EndsTransactions: true, TerseInbox: p.cfg.CompactInbox},
		Open: func(t *testing.T) storetest.Store[Tx] {
			cfg := p.schema(t)
			store, err := open(cfg)
			must(t, err)
			return &postgresStore[Tx]{Store: store, cfg: cfg}
		},
		Reopen: func(t *testing.T, s storetest.Store[Tx]) storetest.Store[Tx] {
			store, err := open(own(s).cfg)
			must(t, err)
			return &postgresStore[Tx]{Store: store, cfg: own(s).cfg, advance: own(s).advance}
		},
		Effects: func(t *testing.T, s storetest.Store[Tx], name string) (n int) {
			t.Helper()
			row := p.pool.QueryRow(context.Background(), "SELECT count(*) FROM "+own(s).table("effects")+" WHERE name = $1", name)
			must(t, row.Scan(&n))
			return n
		},
		Advance: func(t *testing.T, s storetest.Store[Tx], d time.Duration) {
			t.Helper()
			own(s).advance += d
			_, err := p.pool.Exec(context.Background(), clockSQL(own(s).cfg, own(s).advance))
			must(t, err)
		},
		Exhaust: func(t *testing.T, s storetest.Store[Tx], c storetest.Counter, left int) {
			t.Helper()
			alter := "ALTER TABLE " + own(s).table(string(c)) + " ALTER COLUMN " + identities[c] + " RESTART"
			_, err := p.pool.Exec(context.Background(), fmt.Sprintf("%s WITH %d", alter, math.MaxInt64-left+1))
			must(t, err)
			t.Cleanup(func() { // before the schema is used again
				_, err := p.pool.Exec(context.Background(), alter)
				must(t, err)
			})
		},
		Forget: func(t *testing.T, s storetest.Store[Tx], k inbox.Key) {
			t.Helper()
			stmt := "DELETE FROM " + own(s).table("inbox") + " WHERE consumer = $1 AND message_key = $2"
			_, err := p.pool.Exec(context.Background(), stmt, k.Consumer, k.Message)
			must(t, err)
			stmt = "DELETE FROM " + own(s).table("inbox_compact") + " WHERE key = " + own(s).table("inbox_key") + "($1, $2, $3, $4, $5)"
			_, err = p.pool.Exec(context.Background(), stmt, k.Tenant, k.Consumer, k.Source, k.Alias, k.Message)
			must(t, err)
		},
		InsertRaw: func(s storetest.Store[Tx], raw storetest.Raw) error {
			stmt, args := "INSERT INTO "+own(s).table("outbox")+" (topic, payload, key, headers) VALUES ($1, $2, $3, $4::text::jsonb)",
				[]any{raw.Topic, raw.Payload, raw.Key, raw.Headers}
			if raw.Headers == "" && raw.Key == "" {
				stmt, args = "INSERT INTO "+own(s).table("outbox")+" (topic, payload) VALUES ($1, $2)", args[:2]
			}
			_, err := p.pool.Exec(context.Background(), stmt, args...)
			return err
		},
	}
}

func (p *postgres) pgxHarness() storetest.Harness[pgx.Tx] {
	h := postgresHarness(p, func(cfg pgstore.Config) (*pgstore.Store[pgx.Tx], error) { return pgstore.New(p.pool, cfg) })
	h.Begin = func(t *testing.T, _ storetest.Store[pgx.Tx]) pgx.Tx {
		t.Helper()
		tx, err := p.pool.Begin(context.Background())
		must(t, err)
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // of a test that failed
		return tx
	}
	h.Commit = func(t *testing.T, tx pgx.Tx) { t.Helper(); must(t, tx.Commit(context.Background())) }
	h.Rollback = func(t *testing.T, tx pgx.Tx) { t.Helper(); must(t, tx.Rollback(context.Background())) }
	h.Break = func(ctx context.Context, _ storetest.Store[pgx.Tx], tx pgx.Tx) error {
		_, err := tx.Exec(ctx, breakSQL)
		return err
	}
	h.Effect = func(ctx context.Context, s storetest.Store[pgx.Tx], tx pgx.Tx, name string) error {
		_, err := tx.Exec(ctx, s.(*postgresStore[pgx.Tx]).effectSQL(), name)
		return err
	}
	return h
}

func (p *postgres) sqlHarness() storetest.Harness[*sql.Tx] {
	h := postgresHarness(p, func(cfg pgstore.Config) (*pgstore.Store[*sql.Tx], error) { return pgstore.NewSQL(p.db, cfg) })
	h.Begin = func(t *testing.T, _ storetest.Store[*sql.Tx]) *sql.Tx { t.Helper(); return beginSQL(t, p.db) }
	h.Commit = func(t *testing.T, tx *sql.Tx) { t.Helper(); must(t, tx.Commit()) }
	h.Rollback = func(t *testing.T, tx *sql.Tx) { t.Helper(); must(t, tx.Rollback()) }
	h.Break = func(ctx context.Context, _ storetest.Store[*sql.Tx], tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, breakSQL)
		return err
	}
	h.Effect = func(ctx context.Context, s storetest.Store[*sql.Tx], tx *sql.Tx, name string) error {
		_, err := tx.ExecContext(ctx, s.(*postgresStore[*sql.Tx]).effectSQL(), name)
		return err
	}
	return h
}

func beginSQL(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(context.Background(), nil)
	must(t, err)
	t.Cleanup(func() { _ = tx.Rollback() }) // of a test that failed
	return tx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestPostgresStore_NilPoolTx: a variable of the pool's own type that holds no transaction is reported
// like none at all. No statement runs, so that there need be no server.
func TestPostgresStore_NilPoolTx(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/none")
	must(t, err)
	t.Cleanup(pool.Close)
	store, err := pgstore.New(pool, pgstore.Config{})
	must(t, err)
	w, err := outbox.NewWriter(store, outbox.Config{Source: "shop"})
	must(t, err)
	var tx *pgxpool.Tx
	_, err = w.Enqueue(t.Context(), tx, waybill.Message{Topic: "orders"})
	var invalid *waybill.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "tx" {
		t.Errorf("Enqueue() = %v, want an InvalidError about tx", err)
	}
}
