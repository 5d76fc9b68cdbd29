package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/testtools/ownserver"
	"github.com/waybill-go/waybill/store/pgstore"
)

// TestStorageParameters shows what they are for, on a server where nobody else holds back the
// vacuum and where it looks around every second.
func TestStorageParameters(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(context.Background(), ownserver.Postgres(t, "autovacuum_naptime=1s"))
	must(t, err)
	t.Cleanup(pool.Close)
	store, err := pgstore.New(pool, pgstore.Config{})
	must(t, err)
	_, err = store.Migrate(t.Context(), pgstore.MigrateOptions{LockWait: patience})
	must(t, err)
	exec := func(stmt string) {
		t.Helper()
		_, err := pool.Exec(t.Context(), stmt)
		must(t, err)
	}
	statistic := func(column, table string) (n int64) {
		t.Helper()
		row := pool.QueryRow(t.Context(), "SELECT "+column+" FROM pg_stat_all_tables WHERE relid = ('waybill.' || $1)::regclass", table)
		must(t, row.Scan(&n))
		return n
	}

	t.Run("outbox is vacuumed by a count, not by a share", func(t *testing.T) {
		t.Parallel()
		exec("INSERT INTO waybill.outbox (topic) SELECT 't' FROM generate_series(1, 80000)")
		exec("ANALYZE waybill.outbox")                             // now the server knows how many rows there are
		exec("DELETE FROM waybill.outbox WHERE position <= 10500") // a fifth of what is left would be 13,900
		waitFor(t, "a vacuum has been there", func() bool {
			return statistic("n_tup_del", "outbox") == 10500 && statistic("autovacuum_count", "outbox") > 0
		})
		if dead := statistic("n_dead_tup", "outbox"); dead > 1000 {
			t.Errorf("%d dead rows behind a vacuum", dead)
		}
	})
	t.Run("heartbeats and lanes need no new index entries", func(t *testing.T) {
		t.Parallel()
		const rounds = 500
		_, err := store.RenewLanes(t.Context(), contract.LeaseRequest{Node: "r", Join: true, TTL: time.Hour})
		must(t, err)
		for range rounds {
			_, err := store.RenewLanes(t.Context(), contract.LeaseRequest{Node: "r", TTL: time.Hour, Give: []int{1, 2, 3}})
			must(t, err)
		}
		for _, table := range []string{"relays", "relay_lanes"} {
			waitFor(t, "the updates are counted", func() bool { return statistic("n_tup_upd", table) >= rounds })
			if all, hot := statistic("n_tup_upd", table), statistic("n_tup_hot_upd", table); hot*100 < all*95 {
				t.Errorf("%s: %d of %d updates found room on their page", table, hot, all)
			}
		}
	})
}
