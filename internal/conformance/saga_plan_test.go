package conformance

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/store/pgstore"
)

// manySagas are sagas that have ended, with logs, but for a few of each other status.
const (
	manySagas = `INSERT INTO {sagas} (tenant, saga, key, version, definition, status, state, data, progress, error, started_at, changed_at, ended_at)
	SELECT 'default', 'order', 'o' || n, 1, 1, CASE WHEN n % 10000 = 1 THEN 'stuck' WHEN n % 10000 = 2 THEN 'running' ELSE 'completed' END, 'done',
	       repeat('x', 200), '{}', '', now(), now(), CASE WHEN n % 10000 > 2 THEN now() END
	  FROM generate_series(1, 100000) n`
	manyEntries = `INSERT INTO {saga_log} SELECT n, 1, now(), '', '', '', '', 'running', 1, '', '' FROM generate_series(1, 100000) n` // reads no table
)

// TestPostgres_SagasByIndex does what handlers, operators and janitors do among many sagas that have
// ended, and looks whether it is done without reading the tables as a whole.
func TestPostgres_SagasByIndex(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	p := newPostgres(t, nil, pgstore.Config{})
	cfg := pgstore.Config{Schema: "many_" + strings.ReplaceAll(waybill.NewID(), "-", "")[12:]}
	store, err := pgstore.New(p.pool, cfg)
	must(t, err)
	t.Cleanup(func() { p.drop(t, cfg) })
	_, err = store.Migrate(ctx, pgstore.MigrateOptions{LockWait: patience})
	must(t, err)
	p.fill(t, cfg, []string{manySagas, manyEntries, "VACUUM ANALYZE {sagas}", "VACUUM ANALYZE {saga_log}"}, "sagas", "saga_log")
	p.readsByIndex(t, cfg, func() { workOnSagas(t, store) }, "sagas", "saga_log")
	var updated, hot int
	must(t, p.pool.QueryRow(ctx, `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'sagas'`, cfg.Schema).Scan(&updated, &hot))
	if updated == 0 || hot < updated*3/4 {
		t.Errorf("%d of %d changes of running sagas left the indexes alone, want nearly all", hot, updated)
	}
}

// workOnSagas repeats everything more often than a statement is planned for its arguments. Counting
// all instances is not among it: that reads the table where it was not vacuumed yet, rightly.
func workOnSagas(t *testing.T, store *pgstore.Store[pgx.Tx]) {
	t.Helper()
	ctx := t.Context()
	id := saga.ID{Tenant: waybill.DefaultTenant, Saga: "order", Key: "new"}
	in := saga.Instance{ID: id, Status: saga.Running, Data: []byte(`{}`)}
	for range 12 {
		_, err := store.Transact(ctx, func(ctx context.Context, tx pgx.Tx) (outbox.Batch, error) {
			ok, err := store.WriteSaga(ctx, tx, &in, saga.Entry{Status: saga.Running})
			must(t, err)
			if !ok {
				t.Error("WriteSaga() = false, want true")
			}
			_, err = store.ReadSaga(ctx, tx, id, true)
			return outbox.Batch{}, err
		})
		must(t, err)
		for f, want := range map[saga.Filter]int{
			{}: 100, {Saga: "order"}: 100, {Saga: "none"}: 0, {Key: "o7"}: 1, {Status: saga.Stuck}: 10, {Status: saga.Running, Saga: "order"}: 11,
			{Status: saga.Completed, Before: 50000}: 100, {Status: saga.Compensating}: 0,
		} {
			list, err := store.Sagas(ctx, f)
			must(t, err)
			if len(list) != want {
				t.Errorf("Sagas(%+v) = %d, want %d", f, len(list), want)
			}
		}
		_, err = store.Saga(ctx, id)
		must(t, err)
		_, err = store.SagaLog(ctx, id, 0, 10)
		must(t, err)
		_, err = store.CountExpired(ctx, janitor.Rows{Kind: janitor.Sagas, OlderThan: 24 * time.Hour})
		must(t, err)
		_, err = store.PurgeExpired(ctx, janitor.Rows{Kind: janitor.Sagas, OlderThan: 24 * time.Hour}, 100)
		must(t, err)
	}
	n, err := store.PurgeExpired(ctx, janitor.Rows{Kind: janitor.Sagas, OlderThan: time.Microsecond}, 100)
	must(t, err)
	if n != 100 {
		t.Errorf("PurgeExpired() = %d, want 100", n)
	}
}
