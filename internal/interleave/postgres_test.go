package interleave_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
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

// TestPostgres_ConnectionReplaced explores a session whose connection breaks off before it waits for a lock: it is the
// same session on the next one.
func TestPostgres_ConnectionReplaced(t *testing.T) {
	t.Parallel()
	lock := fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", rand.Int64())
	locks := func(ctx context.Context, _ *env[pgx.Tx], p *party[pgx.Tx]) error {
		return p.inTx(ctx, func(tx pgx.Tx) error { return p.exec(ctx, tx, lock) })
	}
	replaced := func(ctx context.Context, e *env[pgx.Tx], p *party[pgx.Tx]) error {
		err := p.inTx(ctx, func(tx pgx.Tx) error { return p.exec(ctx, tx, "SELECT pg_terminate_backend(pg_backend_pid())") })
		if err == nil {
			return errors.New("the connection has not broken off")
		}
		return locks(ctx, e, p)
	}
	e := newPostgres(t, "read committed")
	explore(t, e, scenario[pgx.Tx]{"a connection is replaced", nil, []session[pgx.Tx]{locks, replaced}, nil}, all)
}

// TestPostgres_StrangerBetween explores two sessions that want a lock while somebody else waits for it between them, as
// migrations of other schemas do.
func TestPostgres_StrangerBetween(t *testing.T) {
	t.Parallel()
	e := newPostgres(t, "read committed")
	stranger := poolAt(t, postgresURL(), "", "read committed")
	key := rand.Int32()
	lock := fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", key)
	var strangers sync.WaitGroup
	defer strangers.Wait()
	first := func(ctx context.Context, e *env[pgx.Tx], p *party[pgx.Tx]) error {
		return p.inTx(ctx, func(tx pgx.Tx) error {
			if err := p.exec(ctx, tx, lock); err != nil {
				return err
			}
			strangers.Go(func() {
				if _, err := stranger.Exec(ctx, lock); err != nil {
					t.Error(err)
				}
			})
			asked := fmt.Sprintf("SELECT 1 / count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = %d AND NOT granted", key)
			for e.admin.inTx(ctx, func(tx pgx.Tx) error { return e.admin.exec(ctx, tx, asked) }) != nil && ctx.Err() == nil {
				runtime.Gosched()
			}
			return p.exec(ctx, tx, "SELECT 1")
		})
	}
	second := func(ctx context.Context, _ *env[pgx.Tx], p *party[pgx.Tx]) error {
		return p.inTx(ctx, func(tx pgx.Tx) error { return p.exec(ctx, tx, lock) })
	}
	explore(t, e, scenario[pgx.Tx]{"a stranger waits between two sessions", nil, []session[pgx.Tx]{first, second}, nil}, all)
}

func postgresURL() string {
	if u := os.Getenv("POSTGRES_URL"); u != "" {
		return u
	}
	return "postgres://postgres@127.0.0.1:5432/test?sslmode=disable"
}

// poolAt opens a pool with one connection to a server, at another address if one is given. Without a look whether it is
// still there, which takes a round trip after a second of rest.
func poolAt(t *testing.T, server, at, level string) *pgxpool.Pool {
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
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // newer releases of pgx take a plus for one
	cfg, err := pgxpool.ParseConfig(u.String())
	must(t, err)
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	must(t, err)
	t.Cleanup(pool.Close)
	if err := pool.Ping(t.Context()); err != nil {
		t.Fatalf("PostgreSQL does not answer (%v); start it with: make services", err)
	}
	return pool
}

func newPostgres(t *testing.T, level string) *env[pgx.Tx] {
	t.Helper()
	return newPostgresOn(t, postgresURL(), level)
}

func newPostgresOn(t *testing.T, server, level string) *env[pgx.Tx] {
	t.Helper()
	cfg := pgstore.Config{Schema: "i_" + strings.ReplaceAll(waybill.NewID(), "-", "")[12:], GateTimeout: time.Minute}
	control := poolAt(t, server, "", "read committed")
	admin := poolAt(t, server, "", "read committed")
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
	for range maxParties {
		u, err := url.Parse(server)
		must(t, err)
		gate, err := e.board.Gate(t.Context(), u.Host, interleave.PostgreSQL)
		must(t, err)
		e.parties = append(e.parties, postgresParty(poolAt(t, server, gate.Addr(), level), cfg, gate))
	}
	e.waits = func(ctx context.Context) (map[int][]int, error) {
		return postgresWaits(ctx, control, e.sessionsByPort())
	}
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

// sessionsByPort says whose each open connection is.
func (e *env[Tx]) sessionsByPort() map[int]int {
	of := make(map[int]int)
	for i, p := range e.parties {
		for _, port := range p.gate.Ports() {
			of[port] = i
		}
	}
	return of
}

// postgresWaits asks who waits for whom; sessions are known by the ports that they come from. A lock is handed over by
// the transaction that ends, so that nobody seems to wait who does not. Who waits behind a stranger waits for those whom
// the stranger waits for: a lock is granted in the order in which it was asked for. Of who waits for a prepared transaction
// the server says no more than that: it waits for each party that has one.
func postgresWaits(ctx context.Context, control *pgxpool.Pool, sessions map[int]int) (map[int][]int, error) {
	rows, err := control.Query(ctx, `
WITH RECURSIVE session AS (
  SELECT pid, client_port AS port FROM pg_stat_activity WHERE client_port = ANY($1)
), waits AS (
  SELECT s.port, b.pid FROM session s, unnest(pg_blocking_pids(s.pid)) AS b(pid)
   WHERE s.pid IN (SELECT pid FROM pg_locks WHERE NOT granted)
  UNION
  SELECT w.port, b.pid FROM waits w, unnest(pg_blocking_pids(w.pid)) AS b(pid)
   WHERE w.pid <> 0 AND w.pid NOT IN (SELECT pid FROM session)
)
SELECT w.port, array_agg(CASE WHEN w.pid = 0 THEN 0 ELSE coalesce(s.port, -1) END),
       (SELECT array_agg(substring(gid FROM '^waybill ([0-9]+) ')::int) FROM pg_prepared_xacts WHERE gid LIKE 'waybill %')
  FROM waits w LEFT JOIN session s USING (pid)
 WHERE w.pid = 0 OR s.port IS NOT NULL OR cardinality(pg_blocking_pids(w.pid)) = 0
 GROUP BY w.port`, slices.Collect(maps.Keys(sessions)))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	waits := make(map[int][]int)
	for rows.Next() {
		var port int
		var on, prepared []int
		if err := rows.Scan(&port, &on, &prepared); err != nil {
			return nil, err
		}
		of := sessions[port]
		for _, p := range on {
			other, known := sessions[p]
			switch {
			case p == 0:
				waits[of] = append(waits[of], prepared...)
			case known:
				waits[of] = append(waits[of], other)
			default:
				waits[of] = append(waits[of], -1)
			}
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
