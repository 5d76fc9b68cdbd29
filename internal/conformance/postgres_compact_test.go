package conformance

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/store/pgstore"
	"github.com/waybill-go/waybill/store/storetest"
)

//test:setup
func TestPostgresCompactInbox(t *testing.T) {
	p := newPostgres(t, nil, pgstore.Config{CompactInbox: true})
	t.Parallel()
	for name, h := range map[string]func(*testing.T){
		"pgx": func(t *testing.T) { storetest.RunInbox(t, p.pgxHarness()) },
		"sql": func(t *testing.T) { storetest.RunInbox(t, p.sqlHarness()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h(t)
		})
	}
}

// TestPostgresInboxBytes measures what a processed message takes with all indexes. The limit of
// the compact inbox holds for keys of any form; that of the full one only tells how they compare.
func TestPostgresInboxBytes(t *testing.T) {
	const n = 30_000
	for _, tc := range []struct {
		name    string
		compact bool
		table   string
		id      func() string
		limit   int
	}{
		{"compact, time-ordered ids", true, "inbox_compact", waybill.NewID, 140},
		{"compact, random ids", true, "inbox_compact", rand.Text, 140},
		{"full, time-ordered ids", false, "inbox", waybill.NewID, 600},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := newPostgres(t, nil, pgstore.Config{CompactInbox: tc.compact})
			cfg := p.schema(t)
			store, err := pgstore.New(p.pool, cfg)
			must(t, err)
			for range n / contract.MaxBatch {
				recs := make([]inbox.Record, contract.MaxBatch)
				for i := range recs {
					m := waybill.Message{ID: tc.id(), Type: "order.created@v1", Topic: "orders", Source: "shop", Payload: []byte(`{}`)}
					recs[i] = inbox.RecordOf("billing", &m)
				}
				_, err := store.ProcessBatch(t.Context(), recs, func(context.Context, pgx.Tx, []int) error { return nil })
				must(t, err)
			}
			var count, hashed, size int
			must(t, p.pool.QueryRow(t.Context(), fmt.Sprintf(`SELECT count(*), count(payload_hash), pg_total_relation_size('%[1]s') FROM %[1]s`,
				tableOf(cfg, tc.table))).Scan(&count, &hashed, &size))
			if count != n || hashed != n {
				t.Fatalf("%d records, %d with a hash of the payload, want %d", count, hashed, n)
			}
			t.Logf("%.1f bytes per record", float64(size)/n)
			if size/n >= tc.limit {
				t.Errorf("a record takes %.1f bytes, the limit is %d", float64(size)/n, tc.limit)
			}
		})
	}
}

// TestPostgresCompactLater makes a store compact that was not: nothing is handled twice.
func TestPostgresCompactLater(t *testing.T) {
	p := newPostgres(t, nil, pgstore.Config{})
	cfg := p.schema(t)
	full, err := pgstore.New(p.pool, cfg)
	must(t, err)
	cfg.CompactInbox = true
	compact, err := pgstore.New(p.pool, cfg)
	must(t, err)
	handle := func(context.Context, pgx.Tx) error { return nil }
	want := func(store *pgstore.Store[pgx.Tx], rec inbox.Record, want inbox.Outcome) {
		t.Helper()
		if got, err := store.ProcessOnce(t.Context(), rec, handle); err != nil || got != want {
			t.Errorf("ProcessOnce(%s) = %v, %v, want %v", rec.MessageID, got, err, want)
		}
	}
	want(full, recordOf("before"), inbox.Processed)
	dead := waybill.Message{ID: "dead", Topic: "orders", Source: "shop", Payload: []byte(`{}`)}
	dead.Complete()
	_, err = full.BuryMessage(t.Context(), inbox.Letter{Record: recordOf("dead"), Message: dead, Reason: waybill.ReasonRejected, Error: "no", Attempts: 1})
	must(t, err)
	other := recordOf("before")
	other.PayloadHash = recordOf("another").PayloadHash[1:] + "0"
	want(compact, recordOf("before"), inbox.Duplicate)
	want(compact, other, inbox.Conflict)
	want(compact, recordOf("dead"), inbox.Dead)
	want(compact, recordOf("after"), inbox.Processed)
	recs := []inbox.Record{recordOf("new"), recordOf("before"), recordOf("after"), recordOf("dead")}
	outcomes, err := compact.ProcessBatch(t.Context(), recs, func(context.Context, pgx.Tx, []int) error { return nil })
	must(t, err)
	if fmt.Sprint(outcomes) != "[processed duplicate duplicate dead]" {
		t.Errorf("ProcessBatch() = %v", outcomes)
	}
}

// TestPostgresCompactInbox_LastScope: a scope that is there draws no id, neither in a transaction of the caller nor by a
// program that does not know it yet. So the ids, which are integers, last for as many scopes as there are of them.
func TestPostgresCompactInbox_LastScope(t *testing.T) {
	t.Parallel()
	p := newPostgres(t, nil, pgstore.Config{CompactInbox: true})
	cfg := p.schema(t)
	process := func(id, consumer string) error {
		t.Helper()
		store, err := pgstore.New(p.pool, cfg) // which knows no scope
		must(t, err)
		m := waybill.Message{ID: id, Type: "order", Topic: "orders", Source: "shop"}
		outcome, err := store.ProcessOnce(t.Context(), inbox.RecordOf(consumer, &m), func(context.Context, pgx.Tx) error { return nil })
		if err == nil && outcome != inbox.Processed {
			t.Errorf("ProcessOnce(%s) = %v, want it processed", id, outcome)
		}
		return err
	}
	must(t, process("first", "billing"))
	alter := "ALTER TABLE " + tableOf(cfg, "inbox_scopes") + " ALTER COLUMN id RESTART"
	_, err := p.pool.Exec(t.Context(), alter+" WITH 2147483647")
	must(t, err)
	t.Cleanup(func() { // before the schema is used again
		_, err := p.pool.Exec(context.Background(), alter)
		must(t, err)
	})
	for n := range 5 {
		must(t, process(fmt.Sprint("again", n), "billing"))
	}
	must(t, process("the last scope", "shipping"))
	if err := process("no scope is left", "audit"); err == nil {
		t.Error("ProcessOnce() without a scope = nil, want an error")
	} else {
		t.Log(err)
	}
	must(t, process("known", "billing"))
}
