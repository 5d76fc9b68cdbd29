package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/store/pgstore"
)

// What version 1 wrote into the tables that version 2 has changed, as that release did, with
// the columns that it knew.
const (
	v1Letter = `INSERT INTO {dead_letters} (origin, lane, position, destination, life, id, topic, direct, key, type, source, tenant, subject,
	    payload, payload_bytes, content_type, data_schema, headers, correlation_id, causation_id, idempotency_key, trace_parent, trace_state,
	    time, deliver_at, expires_at, enqueued_at, reason, error, attempts, failed, parks, first_failed_at, last_failed_at)
	SELECT 'relay', 1, n, '', 0, 'v1-' || n, 'orders', false, '', 'order.created', 'shop', 'default', '',
	    NULL, 'x', 'application/json', '', NULL, '', '', '', '', '', NULL, NULL, NULL, now(), 'exhausted', 'queue ' || n || ' is full', 6, false, false, now(), now()
	  FROM generate_series($1::int, $2::int) n`
	v1Resolve = `UPDATE {dead_letters} SET resolved_at = {clock}(), resolution = 'by version 1', parks = false
	 WHERE number = (SELECT min(number) FROM {dead_letters}) AND requeued_at IS NULL AND resolved_at IS NULL`
	v1Waiting = `INSERT INTO {outbox_waiting} (lane, position, id, topic, direct, key, type, source, tenant, subject, payload, payload_bytes,
	    content_type, data_schema, headers, correlation_id, causation_id, idempotency_key, trace_parent, trace_state, time, deliver_at, expires_at,
	    enqueued_at, destination, due_at, attempts, life, error, first_failed_at)
	VALUES (1, 1000, 'v1-w', 'orders', false, '', 'order.created', 'shop', 'default', '', NULL, 'x', 'application/json', '', NULL, '', '', '', '', '',
	    NULL, NULL, NULL, now(), '', now(), 1, 0, 'no', now())`
	v1Attempt = `INSERT INTO {consumer_attempts} AS a (tenant, consumer, source, alias, message_key, attempts, due_at, error, first_failed_at, updated_at)
	VALUES ('default', 'billing', 'shop', 'order.created', 'a', 1, now(), 'no', now(), now())
	ON CONFLICT (tenant, consumer, source, alias, message_key) DO UPDATE SET attempts = excluded.attempts, error = excluded.error`
)

// TestPostgresStore_OlderRelays lets programs of version 1 write before and after the schema
// is brought to version 2, and looks at what became of it.
func TestPostgresStore_OlderRelays(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	p := newPostgres(t, nil, pgstore.Config{})
	cfg := pgstore.Config{Schema: "t_" + strings.ReplaceAll(waybill.NewID(), "-", "")[12:]}
	store, err := pgstore.New(p.pool, cfg)
	must(t, err)
	t.Cleanup(func() { p.drop(t, cfg) })
	_, err = store.Migrate(ctx, pgstore.MigrateOptions{LockWait: patience, Version: 1})
	must(t, err)
	if _, err := store.SchemaVersion(ctx); err == nil {
		t.Error("SchemaVersion() has no error, want one: this release does not work with version 1")
	}
	old := func(stmt string, args ...any) {
		t.Helper()
		for _, name := range []string{"dead_letters", "outbox_waiting", "consumer_attempts", "clock"} {
			stmt = strings.ReplaceAll(stmt, "{"+name+"}", tableOf(cfg, name))
		}
		_, err := p.pool.Exec(ctx, stmt, args...)
		must(t, err)
	}
	old(v1Letter, 1, 3)
	old(v1Resolve)
	_, err = store.Migrate(ctx, pgstore.MigrateOptions{LockWait: patience})
	must(t, err)
	old(v1Letter, 4, 5)
	old(v1Resolve) // nothing: it is resolved
	old(`UPDATE {dead_letters} SET resolved_at = {clock}(), resolution = 'by version 1' WHERE id = 'v1-2'`)
	old(v1Waiting)
	old(v1Attempt)
	old(v1Attempt)

	for state, want := range map[deadletter.State]int{deadletter.Open: 3, deadletter.Resolved: 2} {
		letters, err := store.DeadLetters(ctx, deadletter.Filter{State: state})
		must(t, err)
		if len(letters) != want {
			t.Errorf("%d letters are %s, want %d", len(letters), state, want)
		}
	}
	want := deadletter.Fingerprint(deadletter.FromRelay, "orders", "order.created", "queue 1 is full")
	for _, when := range []string{"first", "folded"} {
		groups, err := store.DeadLetterGroups(ctx, 10)
		must(t, err)
		if len(groups) != 1 || groups[0].Fingerprint != want || groups[0].Open != 3 || groups[0].Trend[22]+groups[0].Trend[23] != 5 {
			t.Errorf("%s: groups = %+v, want one, %s, with three open letters of five", when, groups, want)
		}
		must(t, store.FoldDeadLetters(ctx))
	}
	letters, err := store.DeadLetters(ctx, deadletter.Filter{Fingerprint: want})
	must(t, err)
	if len(letters) != 3 {
		t.Errorf("%d letters in the group, want 3: %s", len(letters), fmt.Sprint(letters))
	}
}
