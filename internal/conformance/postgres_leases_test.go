package conformance

import (
	"testing"
	"time"

	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/store/pgstore"
)

// TestPostgresLeases_WaitBehindALock: a request that found the key free, and waits for somebody
// who gives it back with a wait, does not get it.
func TestPostgresLeases_WaitBehindALock(t *testing.T) {
	t.Parallel()
	p := newPostgres(t, nil, pgstore.Config{})
	schema := p.schema(t)
	store, err := pgstore.New(p.pool, schema)
	must(t, err)
	l := begin(t, store, "k", time.Minute)
	_, err = store.ReleaseLease(t.Context(), l, lease.Release{})
	must(t, err)

	table := tableOf(schema, "inbox_leases")
	other, err := p.pool.Begin(t.Context())
	must(t, err)
	defer other.Rollback(t.Context())
	_, err = other.Exec(t.Context(), "UPDATE "+table+" SET due_at = clock_timestamp() + interval '1 hour'")
	must(t, err)
	answered := make(chan lease.Answer, 1)
	go func() {
		a, err := store.TryBegin(t.Context(), lease.Request{Key: "k", TTL: time.Minute})
		if err != nil {
			t.Errorf("TryBegin: %v", err)
		}
		answered <- a
	}()
	waitFor(t, "the request waits", func() bool {
		var waiting int
		must(t, p.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'", table).Scan(&waiting))
		return waiting > 0
	})
	must(t, other.Commit(t.Context()))
	if a := <-answered; a.Status != lease.Busy || a.Remaining < 59*time.Minute {
		t.Errorf("TryBegin() = %+v, want it busy until it is due", a)
	}
}
