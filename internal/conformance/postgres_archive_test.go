package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/store/pgstore"
)

// archive is a store of PostgreSQL whose archive is looked at from outside.
type archive struct {
	*testing.T
	p     *postgres
	cfg   pgstore.Config
	store *pgstore.Store[pgx.Tx]
}

func newArchive(t *testing.T) *archive {
	t.Parallel()
	p := newPostgres(t, nil, pgstore.Config{})
	cfg := p.newSchema(t)
	t.Cleanup(func() { p.drop(t, cfg) })
	store, err := pgstore.New(p.pool, cfg)
	must(t, err)
	return &archive{T: t, p: p, cfg: cfg, store: store}
}

func (a *archive) exec(stmt string, args ...any) {
	a.Helper()
	_, err := a.p.pool.Exec(context.Background(), stmt, args...)
	must(a.T, err)
}

func (a *archive) number(query string, args ...any) (n int) {
	a.Helper()
	must(a.T, a.p.pool.QueryRow(a.Context(), query, args...).Scan(&n))
	return n
}

func (a *archive) table(name string) string { return tableOf(a.cfg, name) }

// days returns how many partitions there are in addition to the default one.
func (a *archive) days() int {
	a.Helper()
	return a.number("SELECT count(*) FROM pg_inherits WHERE inhparent = $1::text::regclass", a.table("outbox_archive")) - 1
}

// advance sets the store's clock.
func (a *archive) advance(d time.Duration) { a.Helper(); a.exec(clockSQL(a.cfg, d)) }

// begin opens a transaction that runs a statement and stays open until the test ends.
func (a *archive) begin(stmt string, args ...any) pgx.Tx {
	a.Helper()
	tx, err := a.p.pool.Begin(context.Background())
	must(a.T, err)
	a.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // of a test that failed
	_, err = tx.Exec(a.Context(), stmt, args...)
	must(a.T, err)
	return tx
}

// published fills the archive with rows that were published that long ago.
func (a *archive) published(rows int, ago time.Duration) {
	a.Helper()
	a.exec("INSERT INTO "+a.table("outbox_archive")+` (published_at, lane, position, id, topic, direct, key, type, source, tenant,
			subject, content_type, data_schema, correlation_id, causation_id, idempotency_key, trace_parent, trace_state, enqueued_at)
		SELECT clock_timestamp() - $2 * interval '1 second', 1, n, n::text, 't', false, '', '', '', 'default', '', '', '', '', '', '', '', '', clock_timestamp()
		  FROM generate_series(1, $1::int) n`, rows, ago.Seconds())
}

var aWeek = contract.MaintainRequest{Retention: 7 * 24 * time.Hour, BatchSize: 1000}

func TestArchive_Days(t *testing.T) {
	a := newArchive(t)
	if got := a.days(); got != 9 {
		t.Errorf("%d days after the migration, want today and 8 ahead", got)
	}
	a.advance(3 * 24 * time.Hour)
	done, err := a.store.MaintainArchive(t.Context(), aWeek)
	if want := (contract.Maintained{Added: 3}); err != nil || done != want {
		t.Errorf("three days later: %+v, %v, want %+v", done, err, want)
	}
	a.advance(10 * 24 * time.Hour)
	done, err = a.store.MaintainArchive(t.Context(), aWeek)
	if want := (contract.Maintained{Added: 7, Dropped: 3}); err != nil || done != want {
		t.Errorf("ten days later: %+v, %v, want %+v", done, err, want)
	}
	vacuumed := a.number(`SELECT count(*) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = $1::text::regclass AND NOT coalesce(c.reloptions, '{}') @> '{autovacuum_enabled=false}'`, a.table("outbox_archive"))
	if vacuumed != 1 {
		t.Errorf("%d partitions are vacuumed, want the default one", vacuumed)
	}
}

// TestArchive_OneJanitor: while one store is in a step, another one leaves the work to it.
func TestArchive_OneJanitor(t *testing.T) {
	a := newArchive(t)
	a.published(20, 30*24*time.Hour)
	first := a.begin("SELECT * FROM " + a.table("outbox_archive_rest") + " FOR UPDATE") // the first janitor's purge waits for it
	result := make(chan contract.Maintained, 1)
	go func() {
		done, err := a.store.MaintainArchive(context.Background(), aWeek)
		if err != nil {
			t.Error(err)
		}
		result <- done
	}()
	waitFor(t, "the first janitor is at work", func() bool {
		return a.number(`SELECT count(*) FROM pg_stat_activity s
			WHERE s.wait_event_type = 'Lock' AND s.query LIKE '%' || $1 || '%'`, a.cfg.Schema) == 1
	})
	other, err := pgstore.New(a.p.pool, a.cfg)
	must(t, err)
	atOnce, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	done, err := other.MaintainArchive(atOnce, aWeek)
	if want := (contract.Maintained{Busy: true}); err != nil || done != want {
		t.Errorf("the second janitor: %+v, %v, want %+v", done, err, want)
	}
	must(t, first.Rollback(t.Context()))
	if done := <-result; done != (contract.Maintained{Rows: 20}) {
		t.Errorf("the first janitor: %+v, want 20 rows removed", done)
	}
	if left := a.number("SELECT count(*) FROM " + a.table("outbox_archive")); left != 0 {
		t.Errorf("%d rows are left", left)
	}
}

// TestArchive_TwoAtOnce (AS-66): both may win steps; nothing is done twice, and
// nothing that is kept goes.
func TestArchive_TwoAtOnce(t *testing.T) {
	a := newArchive(t)
	a.published(300, 30*24*time.Hour)
	a.published(7, time.Hour)
	a.advance(20 * time.Minute)
	results := make(chan contract.Maintained, 2)
	for range 2 {
		store, err := pgstore.New(a.p.pool, a.cfg)
		must(t, err)
		go func() {
			done, err := store.MaintainArchive(context.Background(), contract.MaintainRequest{Retention: 7 * 24 * time.Hour, BatchSize: 10})
			if err != nil {
				t.Error(err)
			}
			results <- done
		}()
	}
	x, y := <-results, <-results
	if x.Rows+y.Rows != 300 || x.Busy && y.Busy {
		t.Errorf("%+v and %+v, want 300 rows together, and one that was not busy", x, y)
	}
	if left := a.number("SELECT count(*) FROM " + a.table("outbox_archive")); left != 7 {
		t.Errorf("%d rows are left, want the 7 within the retention", left)
	}
}

// TestArchive_BoundedBatches: no statement removes more rows than its limit.
func TestArchive_BoundedBatches(t *testing.T) {
	a := newArchive(t)
	a.published(25, 30*24*time.Hour)
	a.exec("CREATE TABLE " + a.table("deletes") + " (rows bigint)")
	a.exec("CREATE FUNCTION " + a.table("note") + "() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO " +
		a.table("deletes") + " SELECT count(*) FROM gone; RETURN NULL; END $$")
	a.exec("CREATE TRIGGER note AFTER DELETE ON " + a.table("outbox_archive_rest") +
		" REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION " + a.table("note") + "()")
	done, err := a.store.MaintainArchive(t.Context(), contract.MaintainRequest{Retention: time.Hour, BatchSize: 10})
	if err != nil || done.Rows != 25 {
		t.Fatalf("%+v, %v, want 25 rows removed", done, err)
	}
	if n := a.number("SELECT count(*) FROM " + a.table("deletes")); n != 3 {
		t.Errorf("%d statements, want 3", n)
	}
	if most := a.number("SELECT max(rows) FROM " + a.table("deletes")); most != 10 {
		t.Errorf("a statement removed %d rows, want 10 at most", most)
	}
}

// TestArchive_ReaderHoldsALock: somebody reads the archive in a transaction that stays open.
// The drop gives up soon, so a settlement that came after it is not held up, and the rest of
// the work is done anyway.
func TestArchive_ReaderHoldsALock(t *testing.T) {
	a := newArchive(t)
	a.exec("INSERT INTO " + a.table("outbox_ids") + " (id, enqueued_at) VALUES ('old', clock_timestamp() - interval '30 days')")
	lanes, err := a.store.RenewLanes(t.Context(), contract.LeaseRequest{Node: "r", Join: true, TTL: time.Hour})
	must(t, err)
	a.exec("INSERT INTO " + a.table("outbox") + " (topic) VALUES ('t')")
	claims, err := a.store.ClaimMessages(t.Context(), contract.ClaimRequest{Lanes: lanes.Lanes, Limit: 10})
	must(t, err)
	reader := a.begin("SELECT count(*) FROM " + a.table("outbox_archive"))
	a.advance(20 * 24 * time.Hour)

	stop := a.maintainMeanwhile(aWeek)
	waitFor(t, "a drop waits for the reader", func() bool {
		return a.number("SELECT count(*) FROM pg_locks WHERE relation = $1::text::regclass AND mode = 'AccessExclusiveLock' AND NOT granted",
			a.table("outbox_archive")) == 1
	})
	limited, cancel := context.WithTimeout(t.Context(), patience) // for the reader, it would be waited longer
	defer cancel()
	lost, err := a.store.SettleMessages(limited, contract.SettleRequest{Node: "r", Archive: true,
		Settlements: []contract.Settlement{{Claim: &claims[0], Outcome: contract.Published}}})
	waitFor(t, "the lock holds up no other step: the old id goes", func() bool {
		return a.number("SELECT count(*) FROM "+a.table("outbox_ids")) == 0
	})
	stop()
	if err != nil || len(lost) > 0 {
		t.Fatalf("SettleMessages: lost %v, %v", lost, err)
	}

	must(t, reader.Rollback(t.Context()))
	var got contract.Maintained
	waitFor(t, "the server has noticed that the last one was stopped", func() bool {
		got, err = a.store.MaintainArchive(t.Context(), aWeek)
		return !got.Busy
	})
	if err != nil || got.Dropped != 9 {
		t.Errorf("after the reader: %+v, %v, want 9 days dropped", got, err)
	}
}

// TestArchive_AddingHoldsUpNobody: a new day waits for those who read the default partition,
// and meanwhile holds no lock of the archive that settlements would wait for.
func TestArchive_AddingHoldsUpNobody(t *testing.T) {
	a := newArchive(t)
	a.begin("SELECT count(*) FROM " + a.table("outbox_archive_rest"))
	a.advance(24 * time.Hour)
	stop := a.maintainMeanwhile(contract.MaintainRequest{})
	var waiting, exclusive int
	waitFor(t, "a new day waits for the reader", func() bool {
		must(t, a.p.pool.QueryRow(t.Context(), `
			SELECT count(*) FILTER (WHERE relation = $2::text::regclass AND NOT granted), count(*) FILTER (WHERE relation = $1::text::regclass)
			  FROM pg_locks WHERE mode = 'AccessExclusiveLock'`, a.table("outbox_archive"), a.table("outbox_archive_rest")).Scan(&waiting, &exclusive))
		return waiting == 1
	})
	stop()
	if exclusive != 0 {
		t.Error("a new day takes the whole archive for itself")
	}
}

// maintainMeanwhile maintains the archive again and again, so that what the test does meets a
// waiting lock for certain, and expects conflicts.
func (a *archive) maintainMeanwhile(req contract.MaintainRequest) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for ctx.Err() == nil {
			_, err := a.store.MaintainArchive(ctx, req)
			if ctx.Err() == nil && waybill.KindOf(err) != waybill.Conflict {
				a.Errorf("MaintainArchive with a reader: %v, want a conflict", err)
			}
		}
	}()
	return func() { cancel(); <-stopped }
}

// patience ends a test that hangs: each wait ends as soon as its condition holds.
const patience = 5 * time.Minute

// waitFor waits until condition holds.
func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(patience); !condition(); {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
