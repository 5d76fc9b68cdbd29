package conformance

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/schedule"
	"github.com/waybill-go/waybill/store/mysqlstore"
	"github.com/waybill-go/waybill/store/pgstore"
)

const (
	farScheduled = `INSERT INTO {scheduled} (lane, position, token, id, topic, direct, key, type, source, tenant, subject, payload_bytes,
	    content_type, data_schema, correlation_id, causation_id, idempotency_key, trace_parent, trace_state, deliver_at, due_at, enqueued_at)
	SELECT 1, -n, 'far-' || n, 'far-' || n, 'orders', false, '', 'orders', 'shop', 'default', '', 'x',
	    'application/json', '', '', '', '', '', '', now() + interval '30 days', now() + interval '30 days' + n % 1000 * interval '1 second', now()
	  FROM generate_series(1, 50000) n`
	farSchedules = `INSERT INTO {schedules} (name, version, plan, paused, next_at, last_id, executions, skipped)
	SELECT 'far-' || n, n, '{}', false, now() + interval '30 days', '', 0, 0 FROM generate_series(1, 20000) n`
	scanned = `SELECT seq_scan, idx_scan FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = $2`
)

// TestPostgres_FarFutureIsNotRead lets many messages and many schedules wait for next month,
// and looks whether what is due now is found without reading their tables as a whole: with
// statistics and without, and with plans for the values at hand and for any.
func TestPostgres_FarFutureIsNotRead(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		for _, statistics := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, statistics %t", mode, statistics), func(t *testing.T) {
				t.Parallel()
				farFutureIsNotRead(t, mode, statistics)
			})
		}
	}
}

func farFutureIsNotRead(t *testing.T, mode string, statistics bool) {
	t.Helper()
	ctx := t.Context()
	p := newPostgres(t, map[string]string{"plan_cache_mode": mode}, pgstore.Config{})
	cfg := pgstore.Config{Schema: "far_" + strings.ReplaceAll(waybill.NewID(), "-", "")[12:]}
	store, err := pgstore.New(p.pool, cfg)
	must(t, err)
	t.Cleanup(func() { p.drop(t, cfg) })
	_, err = store.Migrate(ctx, pgstore.MigrateOptions{LockWait: patience})
	must(t, err)
	stmts := []string{"ALTER TABLE {scheduled} SET (autovacuum_enabled = false)", "ALTER TABLE {schedules} SET (autovacuum_enabled = false)", farScheduled, farSchedules}
	if statistics {
		stmts = append(stmts, "ANALYZE {scheduled}", "ANALYZE {schedules}")
	}
	p.fill(t, cfg, stmts, "scheduled", "schedules")
	p.readsByIndex(t, cfg, func() { workOnSchedules(t, store) }, "scheduled", "schedules")
}

// fill runs statements in which tables of the schema stand in braces.
func (p *postgres) fill(t *testing.T, cfg pgstore.Config, stmts []string, tables ...string) {
	t.Helper()
	for _, stmt := range stmts {
		for _, name := range tables {
			stmt = strings.ReplaceAll(stmt, "{"+name+"}", tableOf(cfg, name))
		}
		_, err := p.pool.Exec(t.Context(), stmt)
		must(t, err)
	}
}

// readsByIndex checks that work reads each of the tables by its indexes, and never as a whole.
func (p *postgres) readsByIndex(t *testing.T, cfg pgstore.Config, work func(), tables ...string) {
	t.Helper()
	scans := func(table string) (whole, byIndex int) {
		p.pool.Reset() // sessions tell what they have read when they end
		must(t, p.pool.QueryRow(t.Context(), scanned, cfg.Schema, table).Scan(&whole, &byIndex))
		return whole, byIndex
	}
	before := map[string]int{}
	for _, table := range tables {
		before[table], _ = scans(table)
	}
	work()
	for table, was := range before {
		waitFor(t, table+" was read by its indexes", func() bool { _, byIndex := scans(table); return byIndex > 5 })
		if whole, _ := scans(table); whole != was {
			t.Errorf("%s was read as a whole %d times, want never", table, whole-was)
		}
	}
}

// workOnSchedules does what relays, runners and programs do.
func workOnSchedules(t *testing.T, store *pgstore.Store[pgx.Tx]) {
	t.Helper()
	ctx := t.Context()
	s, err := schedule.NewScheduler(store, schedule.Config{Source: "shop"})
	must(t, err)
	runner, err := schedule.NewRunner(store, schedule.RunnerConfig{})
	must(t, err)
	for range 5 {
		_, err := store.Transact(ctx, func(ctx context.Context, tx pgx.Tx) (outbox.Batch, error) {
			must(t, s.Put(ctx, tx, schedule.Recurring{Name: "often", Every: time.Second, Message: waybill.Message{Topic: "orders"}}))
			id, err := s.After(ctx, tx, waybill.Message{Topic: "orders"}, time.Hour)
			must(t, err)
			_, err = s.Reschedule(ctx, tx, id, time.Now().Add(2*time.Hour))
			must(t, err)
			_, err = s.Cancel(ctx, tx, id)
			must(t, err)
			_, err = s.After(ctx, tx, waybill.Message{Topic: "orders"}, time.Microsecond)
			return outbox.Batch{}, err
		})
		must(t, err)
		_, err = store.Scheduled(ctx, "far-1")
		must(t, err)
		_, err = store.Schedules(ctx, "far-5", 10)
		must(t, err)
		_, err = store.ScheduledMessages(ctx, nil, 10)
		must(t, err)
		far := schedule.ScheduledMessage{DueAt: time.Now().Add(31 * 24 * time.Hour)}
		_, err = store.ScheduledMessages(ctx, &far, 10)
		must(t, err)
		must(t, runner.RunOnce(ctx))
		released, err := store.ReleaseScheduled(ctx, 100)
		must(t, err)
		if released != 1 {
			t.Errorf("ReleaseScheduled() = %d, want 1", released)
		}
	}
}

// TestMySQL_FarFutureIsNotRead: with many messages of next month, a look for what is due reads a
// few rows, with statistics and without.
func TestMySQL_FarFutureIsNotRead(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store := newMySQL(t, nil, mysqlstore.Config{}).migrated(t)
	store.db.SetMaxOpenConns(1) // the server counts what each session has read
	s, err := schedule.NewScheduler(store, schedule.Config{Source: "shop"})
	must(t, err)
	add := func(after time.Duration) {
		t.Helper()
		_, err := store.Transact(ctx, func(ctx context.Context, tx *sql.Tx) (outbox.Batch, error) {
			_, err := s.After(ctx, tx, waybill.Message{Topic: "orders"}, after)
			return outbox.Batch{}, err
		})
		must(t, err)
	}
	add(30 * 24 * time.Hour)
	var columns, values string
	must(t, store.db.QueryRow(`
SELECT group_concat(concat('~', column_name, '~') ORDER BY ordinal_position),
       group_concat(CASE column_name WHEN 'position' THEN '-n' WHEN 'id' THEN "concat('far-', n)" WHEN 'token' THEN "concat('far-', n)"
                                     ELSE concat('~', column_name, '~') END ORDER BY ordinal_position)
  FROM information_schema.columns WHERE table_schema = database() AND table_name = 'waybill_scheduled'`).Scan(&columns, &values))
	columns, values = strings.ReplaceAll(columns, "~", "`"), strings.ReplaceAll(values, "~", "`")
	numbers := mysqlNumbers + " numbers"
	must(t, store.exec("INSERT INTO "+store.table("scheduled")+" ("+columns+") SELECT "+values+" FROM "+store.table("scheduled")+" far, "+numbers))

	read := func() int { t.Helper(); return mysqlRowsRead(t, store.db) }
	for _, statistics := range []bool{false, true} {
		if statistics {
			rows, err := store.db.Query("ANALYZE TABLE " + store.table("scheduled"))
			must(t, err)
			must(t, rows.Close())
		}
		for want := range 2 {
			before := read()
			n, err := store.ReleaseScheduled(ctx, 100)
			if after := read(); err != nil || n != want || after-before > 1000 {
				t.Errorf("statistics %t: ReleaseScheduled() = %d, %v after reading %d rows, want %d and only a few read", statistics, n, err, after-before, want)
			}
			if want == 0 {
				add(time.Microsecond)
			}
		}
	}
}

const digits = "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"

// mysqlNumbers are the numbers n from 1 to 10,000.
const mysqlNumbers = "(SELECT 1 + a.d + 10 * b.d + 100 * c.d + 1000 * e.d AS n FROM " + digits + " a, " + digits + " b, " + digits + " c, " + digits + " e)"

// mysqlRowsRead is how many rows the session of a pool of one has read.
func mysqlRowsRead(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	rows, err := db.Query("SHOW SESSION STATUS LIKE 'Handler_read%'")
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var name string
		var count int
		must(t, rows.Scan(&name, &count))
		n += count
	}
	must(t, rows.Err())
	return n
}

// TestMySQL_ClaimReadsItsShare: of a backlog a claim reads as much of each lane as it may take from it, and not as much as it
// may take in all, nor the whole: one of a hundred messages read the 10,000 that there were. If most messages are of few lanes it reads more.
func TestMySQL_ClaimReadsItsShare(t *testing.T) {
	t.Parallel()
	const backlog, limit, lanes = 10_000, 100, 64
	for _, test := range []struct {
		name, key string
		most      int
	}{
		{"many keys", "concat('k', n % 1000)", 5 * (lanes*30 + 2*limit)}, // derived tables count again, and sorting
		{"one key", "'k'", 5 * (2*limit + 30 + 2*lanes)},
	} {
		store := newMySQL(t, nil, mysqlstore.Config{}).migrated(t)
		store.db.SetMaxOpenConns(1)
		must(t, store.exec("INSERT INTO "+store.table("outbox")+" (topic, `key`) SELECT 'orders', "+test.key+" FROM "+mysqlNumbers+" numbers"))
		lease, err := store.RenewLanes(t.Context(), contract.LeaseRequest{Node: "r", Join: true, TTL: patience})
		must(t, err)
		var held []int64
		last := int64(0)
		for range 5 {
			before := mysqlRowsRead(t, store.db)
			claims, err := store.ClaimMessages(t.Context(), contract.ClaimRequest{Lanes: lease.Lanes, Limit: limit, Held: held})
			read := mysqlRowsRead(t, store.db) - before
			must(t, err)
			if len(claims) != limit || claims[0].Position <= last {
				t.Fatalf("%s: %d claimed from position %d on, want %d behind %d", test.name, len(claims), claims[0].Position, limit, last)
			}
			if read > test.most {
				t.Errorf("%s: a claim of %d in addition to %d that are held has read %d rows, want at most %d", test.name, limit, len(held), read, test.most)
			}
			for _, c := range claims {
				held, last = append(held, c.Position), c.Position
			}
			held = held[max(0, len(held)-limit):]
			must(t, store.exec("DELETE FROM "+store.table("outbox")+fmt.Sprint(" WHERE position < ", held[0])))
		}
	}
}
