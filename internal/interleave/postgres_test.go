package interleave_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/interleave"
	"github.com/waybill-go/waybill/store/pgstore"
)

const maxParties = 3

// TestPostgres explores every scenario at each isolation level that sessions may have by default.
func TestPostgres(t *testing.T) {
	t.Parallel()
	// The first is what sessions have unless somebody has changed it.
	atEachLevel(t, newPostgres, levels{{"read committed", 40}, {"repeatable read", 12}, {"serializable", 12}})
}

func postgresURL() string {
	if u := os.Getenv("POSTGRES_URL"); u != "" {
		return u
	}
	return "postgres://postgres@127.0.0.1:5432/test?sslmode=disable"
}

// poolAt opens a pool with one connection to a server, at another address if one is given. Without a look whether it is
// still there, which takes a round trip after a second of rest.
func poolAt(t *testing.T, server, at, level string) (*pgxpool.Pool, int) {
	t.Helper()
	u, err := url.Parse(server)
	must(t, err)
	if at != "" {
		u.Host = at
	}
	q := u.Query()
	q.Set("pool_max_conns", "1")
	q.Set("synchronous_commit", "off")
	q.Set("deadlock_timeout", "1ms") // the last one to close a circle breaks it
	q.Set("default_transaction_isolation", level)
	u.RawQuery = q.Encode()
	cfg, err := pgxpool.ParseConfig(u.String())
	must(t, err)
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	must(t, err)
	t.Cleanup(pool.Close)
	var pid int
	if err := pool.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatalf("PostgreSQL does not answer (%v); start it with: make services", err)
	}
	return pool, pid
}

func newPostgres(t *testing.T, level string) *env[pgx.Tx] {
	t.Helper()
	return newPostgresOn(t, postgresURL(), level)
}

func newPostgresOn(t *testing.T, server, level string) *env[pgx.Tx] {
	t.Helper()
	cfg := pgstore.Config{Schema: "i_" + strings.ReplaceAll(waybill.NewID(), "-", "")[12:], GateTimeout: time.Minute}
	control, _ := poolAt(t, server, "", "read committed")
	admin, _ := poolAt(t, server, "", "read committed")
	store, err := pgstore.New(control, cfg)
	must(t, err)
	_, err = store.Migrate(t.Context(), pgstore.MigrateOptions{LockWait: 5 * time.Minute})
	must(t, err)
	t.Cleanup(func() {
		_, err := control.Exec(context.Background(), "DROP SCHEMA "+cfg.Schema+" CASCADE")
		must(t, err)
	})
	_, err = control.Exec(t.Context(), "CREATE TABLE "+cfg.Schema+".effects (name text)")
	must(t, err)

	e := &env[pgx.Tx]{board: interleave.NewBoard(), admin: postgresParty(admin, cfg, nil)}
	var pids []int
	for range maxParties {
		u, err := url.Parse(server)
		must(t, err)
		gate, err := e.board.Gate(t.Context(), u.Host, interleave.PostgreSQL)
		must(t, err)
		pool, pid := poolAt(t, server, gate.Addr(), level)
		pids = append(pids, pid)
		e.parties = append(e.parties, postgresParty(pool, cfg, gate))
	}
	e.waits = func(ctx context.Context) (map[int][]int, error) { return postgresWaits(ctx, control, pids) }
	moved := time.Duration(0) // a new clock costs every session its plans
	e.wipe = func(ctx context.Context) error {
		sql := wipeSQL(cfg)
		if moved > 0 {
			sql += clockSQL(cfg, 0)
		}
		moved = 0
		_, err := control.Exec(ctx, sql)
		return err
	}
	e.advance = func(ctx context.Context, d time.Duration) error {
		moved += d
		_, err := control.Exec(ctx, clockSQL(cfg, moved))
		return err
	}
	e.effects = func(ctx context.Context) ([]string, error) {
		rows, err := control.Query(ctx, "SELECT name FROM "+cfg.Schema+".effects ORDER BY name")
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowTo[string])
	}
	return e
}

func postgresParty(pool *pgxpool.Pool, cfg pgstore.Config, gate *interleave.Gate) *party[pgx.Tx] {
	return &party[pgx.Tx]{
		gate:     gate,
		open:     func() (store[pgx.Tx], error) { return pgstore.New(pool, cfg) },
		begin:    pool.Begin,
		commit:   func(ctx context.Context, tx pgx.Tx) error { return conflicts(tx.Commit(ctx)) },
		rollback: func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
		effect: func(ctx context.Context, tx pgx.Tx, name string) error {
			_, err := tx.Exec(ctx, "INSERT INTO "+cfg.Schema+".effects VALUES ($1)", name)
			return err
		},
		exec: func(ctx context.Context, tx pgx.Tx, sql string) error {
			_, err := tx.Exec(ctx, sql)
			return conflicts(err)
		},
	}
}

// postgresWaits asks who waits for whom. A lock is handed over by the transaction that ends, so that
// nobody seems to wait who does not. Of who waits for a prepared transaction the server says no more than that: it waits
// for each party that has one.
func postgresWaits(ctx context.Context, control *pgxpool.Pool, pids []int) (map[int][]int, error) {
	rows, err := control.Query(ctx, `
SELECT pid, pg_blocking_pids(pid),
       (SELECT coalesce(array_agg(substring(gid FROM '^waybill ([0-9]+) ')::int), '{}') FROM pg_prepared_xacts WHERE gid LIKE 'waybill %')
  FROM pg_locks WHERE NOT granted AND pid = ANY($1)`, pids)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	waits := make(map[int][]int)
	for rows.Next() {
		var pid int
		var on, prepared []int
		if err := rows.Scan(&pid, &on, &prepared); err != nil {
			return nil, err
		}
		of := slices.Index(pids, pid)
		for _, p := range on {
			if p == 0 {
				waits[of] = append(waits[of], prepared...)
				continue
			}
			waits[of] = append(waits[of], slices.Index(pids, p))
		}
	}
	return waits, rows.Err()
}

func wipeSQL(cfg pgstore.Config) string {
	var b strings.Builder
	for _, name := range []string{
		"outbox", "outbox_waiting", "outbox_archive", "outbox_ids", "scheduled", "schedules", "sagas", "saga_log", "dead_letters",
		"dead_letter_changes", "dead_letter_sums", "audit_log", "inbox", "inbox_leases", "consumer_attempts", "relays", "replays", "effects",
	} {
		fmt.Fprintf(&b, "DELETE FROM %s.%s;\n", cfg.Schema, name)
	}
	fmt.Fprintf(&b, "UPDATE %s.relay_lanes SET owner = NULL, since = NULL WHERE owner IS NOT NULL;\n", cfg.Schema)
	return b.String()
}

func clockSQL(cfg pgstore.Config, offset time.Duration) string {
	return fmt.Sprintf("CREATE OR REPLACE FUNCTION %s.clock() RETURNS timestamptz LANGUAGE sql VOLATILE"+
		" AS 'SELECT clock_timestamp() + ''%d microseconds''::interval'", cfg.Schema, offset.Microseconds())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
