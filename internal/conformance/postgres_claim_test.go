package conformance

import (
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/pgstore"
)

// TestPostgres_ClaimGoesOnWhereItWas: a claim begins in the index behind what the claims before it
// have read. One that walked there from the beginning of its lane read dozens of pages each time,
// and more with every message that came before.
func TestPostgres_ClaimGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		for _, statistics := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, statistics %t", mode, statistics), func(t *testing.T) {
				t.Parallel()
				claimGoesOn(t, mode, statistics)
			})
		}
	}
}

func claimGoesOn(t *testing.T, mode string, statistics bool) {
	t.Helper()
	const backlog, limit, pagesEach = 20_000, 100, 10 // an index of three levels, two leaves, the look
	w := newKeyWorld(t, newPostgres(t, map[string]string{"plan_cache_mode": mode}, pgstore.Config{}))
	outbox := pgx.Identifier{w.cfg.Schema, w.cfg.TablePrefix + "outbox"}.Sanitize()
	_, err := w.pool.Exec(w.ctx, fmt.Sprintf("INSERT INTO %s (topic, key) SELECT 'orders', 'one' FROM generate_series(1, %d)", outbox, backlog))
	must(t, err)
	if statistics {
		_, err = w.pool.Exec(w.ctx, "ANALYZE "+outbox)
		must(t, err)
	}
	w.pool.Reset()
	waitFor(t, "what was prepared has been counted", func() bool { return w.inserted(outbox) == backlog })

	var number int
	must(t, w.pool.QueryRow(w.ctx, "SELECT DISTINCT lane FROM "+outbox).Scan(&number))
	lanes := slices.DeleteFunc(w.lanes, func(l relay.Lane) bool { return l.Number != number })
	before := w.keyPages(outbox)
	pool, err := pgxpool.NewWithConfig(w.ctx, w.pool.Config())
	must(t, err)
	s, err := pgstore.New(pool, w.cfg)
	must(t, err)
	var held []int64 // what a relay has under way, which the second claim would read again
	for claimed := 0; claimed < backlog; claimed += limit {
		claims, err := s.ClaimMessages(w.ctx, relay.ClaimRequest{Lanes: lanes, Limit: limit, Held: held})
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

// keyPages is how many pages of a table's primary key were read.
func (w *keyWorld) keyPages(table string) (n int64) {
	w.t.Helper()
	err := w.pool.QueryRow(w.ctx, `
SELECT idx_blks_hit + idx_blks_read FROM pg_statio_user_indexes
 WHERE indexrelid = (SELECT indexrelid FROM pg_index WHERE indrelid = $1::regclass AND indisprimary)`, table).Scan(&n)
	must(w.t, err)
	return n
}
