package conformance

import (
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/store/pgstore"
)

// TestPostgres_ClaimReadsWhatItTakes: of many messages that are due a claim reads those that it takes,
// and not all of a lane to sort them. That takes statistics: where there are none the planner expects
// so few that it sorts them.
func TestPostgres_ClaimReadsWhatItTakes(t *testing.T) {
	t.Parallel()
	inEachMode(t, []bool{true}, func(t *testing.T, w *keyWorld, statistics bool) {
		claims := claimOfWaiting(t, w, statistics, 3*claimLimit, "''", "now() - i * interval '1 second'")
		if claims[0].Position <= waitingRows-claimLimit {
			t.Errorf("the message at position %d is claimed, want those that are due for longest", claims[0].Position)
		}
	})
}

// TestPostgres_ClaimReadsAShareOfEachKey: where many keys wait a claim does not read as much of each as it may take in all.
func TestPostgres_ClaimReadsAShareOfEachKey(t *testing.T) {
	t.Parallel()
	inEachMode(t, []bool{true}, func(t *testing.T, w *keyWorld, statistics bool) {
		claimOfWaiting(t, w, statistics, 4*claimLimit, "'k' || i % 20", "CASE WHEN i <= 20 THEN now() END")
	})
}

const waitingRows, claimLimit = 20_000, 100

// claimOfWaiting lets messages wait, the i-th of them with a key and a due time, claims some, and checks that this reads no more rows
// than most.
func claimOfWaiting(t *testing.T, w *keyWorld, statistics bool, most int64, key, due string) []contract.Claim {
	t.Helper()
	waiting := pgx.Identifier{w.cfg.Schema, w.cfg.TablePrefix + "outbox_waiting"}.Sanitize()
	_, err := w.pool.Exec(w.ctx, fmt.Sprintf(`
INSERT INTO %s (lane, position, id, topic, direct, key, type, source, tenant, subject, payload, content_type, data_schema,
       correlation_id, causation_id, idempotency_key, trace_parent, trace_state, enqueued_at, due_at)
SELECT 0, i, 'w' || i, 'orders', false, %s, '', '', 'default', '', '', '', '', '', '', '', '', '', now(), %s
  FROM generate_series(1, %d) AS i`, waiting, key, due, waitingRows))
	must(t, err)
	w.prepared(waiting, waitingRows, statistics)
	before := w.fetched(waiting)
	pool, err := pgxpool.NewWithConfig(w.ctx, w.pool.Config())
	must(t, err)
	s, err := pgstore.New(pool, w.cfg)
	must(t, err)
	claims, err := s.ClaimMessages(w.ctx, contract.ClaimRequest{Lanes: w.lanes, Limit: claimLimit, Due: true, DueOnly: true})
	must(t, err)
	if len(claims) != claimLimit {
		t.Fatalf("%d messages claimed, want %d", len(claims), claimLimit)
	}
	pool.Close()
	var rows int64
	waitFor(t, "the claim has been counted", func() bool { rows = w.fetched(waiting) - before; return rows > 0 })
	if rows > most {
		t.Errorf("a claim of %d messages has read %d waiting rows, want at most %d", claimLimit, rows, most)
	}
	return claims
}

// TestPostgres_ClaimGoesOnWhereItWas: a claim begins in the index behind what the claims before it
// have read. One that walked there from the beginning of its lane read dozens of pages each time,
// and more with every message that came before.
func TestPostgres_ClaimGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	inEachMode(t, []bool{true, false}, claimGoesOn)
}

// inEachMode runs a test with plans for the values at hand and for any, and with statistics or without.
func inEachMode(t *testing.T, with []bool, test func(t *testing.T, w *keyWorld, statistics bool)) {
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		for _, statistics := range with {
			t.Run(fmt.Sprintf("%s, statistics %t", mode, statistics), func(t *testing.T) {
				t.Parallel()
				test(t, newKeyWorld(t, newPostgres(t, map[string]string{"plan_cache_mode": mode}, pgstore.Config{})), statistics)
			})
		}
	}
}

func claimGoesOn(t *testing.T, w *keyWorld, statistics bool) {
	const backlog, limit, pagesEach = 20_000, 100, 10 // an index of three levels, two leaves, the look
	outbox := pgx.Identifier{w.cfg.Schema, w.cfg.TablePrefix + "outbox"}.Sanitize()
	_, err := w.pool.Exec(w.ctx, fmt.Sprintf("INSERT INTO %s (topic, key) SELECT 'orders', 'one' FROM generate_series(1, %d)", outbox, backlog))
	must(t, err)
	w.prepared(outbox, backlog, statistics)
	var number int
	must(t, w.pool.QueryRow(w.ctx, "SELECT DISTINCT lane FROM "+outbox).Scan(&number))
	lanes := slices.DeleteFunc(w.lanes, func(l contract.Lane) bool { return l.Number != number })
	before := w.keyPages(outbox)
	pool, err := pgxpool.NewWithConfig(w.ctx, w.pool.Config())
	must(t, err)
	s, err := pgstore.New(pool, w.cfg)
	must(t, err)
	var held []int64 // what a relay has in flight, which the second claim would read again
	for claimed := 0; claimed < backlog; claimed += limit {
		claims, err := s.ClaimMessages(w.ctx, contract.ClaimRequest{Lanes: lanes, Limit: limit, Held: held})
		must(t, err)
		if len(claims) != limit || claims[0].Position != int64(claimed+1) {
			t.Fatalf("%d messages claimed after %d, want %d, the next", len(claims), claimed, limit)
		}
		held = held[:0]
		for _, c := range claims {
			held = append(held, c.Position)
		}
	}
	pool.Close()
	var pages int64
	waitFor(t, "the claims have been counted", func() bool { pages = w.keyPages(outbox) - before; return pages > 0 })
	if most := int64(backlog / limit * pagesEach); pages > most {
		t.Errorf("%d claims have read %d pages of the primary key, want at most %d", backlog/limit, pages, most)
	}
}

// prepared waits until the rows of a table are counted: sessions tell what they have done when they end.
func (w *keyWorld) prepared(table string, rows int, statistics bool) {
	w.t.Helper()
	if statistics {
		_, err := w.pool.Exec(w.ctx, "ANALYZE "+table)
		must(w.t, err)
	}
	w.pool.Reset()
	waitFor(w.t, "what was prepared has been counted", func() bool { return w.inserted(table) == rows })
}

// fetched is how many rows of a table were read.
func (w *keyWorld) fetched(table string) (n int64) {
	w.t.Helper()
	err := w.pool.QueryRow(w.ctx, "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relid = $1::regclass", table).Scan(&n)
	must(w.t, err)
	return n
}

// keyPages is how many pages of a table's primary key were read.
func (w *keyWorld) keyPages(table string) (n int64) {
	w.t.Helper()
	err := w.pool.QueryRow(w.ctx, `
SELECT idx_blks_hit + idx_blks_read FROM pg_statio_user_indexes
 WHERE indexrelid = (SELECT indexrelid FROM pg_index WHERE indrelid = $1::regclass AND indisprimary)`, table).Scan(&n)
	must(w.t, err)
	return n
}
