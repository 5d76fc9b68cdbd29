package conformance

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/store/pgstore"
)

// TestNobodyIsLeftToNotify: writers notify no longer than a relay may hear them: they stop when the
// last one leaves, and when the lease of one that was killed has ended.
func TestNobodyIsLeftToNotify(t *testing.T) {
	t.Parallel()
	p := newPostgres(t, nil, pgstore.Config{})
	cfg := p.schema(t)
	store, err := pgstore.New(p.pool, cfg)
	must(t, err)
	asked := func() (seconds float64) { // how long writers are still asked to notify
		must(t, p.pool.QueryRow(t.Context(), fmt.Sprintf(
			"SELECT last_value - extract(epoch FROM clock_timestamp())::float8 FROM %s", tableOf(cfg, "wakeups"))).Scan(&seconds))
		return seconds
	}
	for _, node := range []string{"r1", "r2"} {
		_, err := store.RenewLanes(t.Context(), contract.LeaseRequest{Node: node, Join: true, TTL: 10 * time.Second})
		must(t, err)
	}
	waitFor(t, "writers are asked to notify", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		must(t, store.AwaitMessages(ctx, "r1"))
		return asked() > 0
	})
	must(t, store.LeaveLanes(t.Context(), "r2"))
	if asked() <= 0 {
		t.Error("writers do not notify while a relay is there")
	}
	must(t, store.LeaveLanes(t.Context(), "r1"))
	if left := asked(); left > 0 {
		t.Errorf("writers are asked to notify for %.0f s after the last relay has left", left)
	}
}
