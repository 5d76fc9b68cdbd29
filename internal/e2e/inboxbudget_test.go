package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/store/pgstore"
)

// TestInboxBudget counts how often the transaction of a handler waits for the server once its
// statements are prepared: BEGIN travels with the inbox record. A message that follows one which
// was there is looked for first.
func TestInboxBudget(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	pool, store, counter := w.countedStore(t)
	impatient, err := pgstore.New(pool, pgstore.Config{Schema: w.schema, GateTimeout: unreached})
	if err != nil {
		t.Fatal(err)
	}
	insert := "INSERT INTO " + w.table("effects") + " (consumer, message_id) SELECT 'billing', unnest($1::text[])"
	once := func(store *pgstore.Store[pgx.Tx], recs []inbox.Record) error {
		_, err := store.ProcessOnce(t.Context(), recs[0], func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, insert, []string{recs[0].MessageID})
			return err
		})
		return err
	}
	batch := func(store *pgstore.Store[pgx.Tx], recs []inbox.Record) error {
		_, err := store.ProcessBatch(t.Context(), recs, func(ctx context.Context, tx pgx.Tx, fresh []int) error {
			ids := make([]string, len(fresh))
			for i, place := range fresh {
				ids[i] = recs[place].MessageID
			}
			_, err := tx.Exec(ctx, insert, ids)
			return err
		})
		return err
	}
	for _, tc := range []struct {
		name   string
		store  *pgstore.Store[pgx.Tx]
		run    func(store *pgstore.Store[pgx.Tx], recs []inbox.Record) error
		before int  // of the records are there
		inARow bool // the message before it was there, too
		want   int64
	}{
		{"one: BEGIN with gate, handler, COMMIT", store, once, 0, false, 3},
		{"one, with GateTimeout", impatient, once, 0, false, 3},
		{"a duplicate: BEGIN with gate, look with COMMIT", store, once, 100, false, 2},
		{"a duplicate after another: a look", store, once, 100, true, 1},
		{"one after a duplicate: a look, BEGIN with gate, handler, COMMIT", store, once, 0, true, 4},
		{"a hundred: BEGIN with gate, handler, COMMIT", store, batch, 0, false, 3},
		{"a hundred, one of them there: one look more", store, batch, 1, false, 4},
		{"a hundred duplicates: BEGIN with gate, look, COMMIT", store, batch, 100, false, 3},
	} {
		var trips int64
		for try := range 2 { // the first prepares statements
			msgs := numbered(fmt.Sprintf("%s %d ", tc.name, try), "orders", 100)
			recs := make([]inbox.Record, len(msgs))
			for i := range msgs {
				recs[i] = inbox.RecordOf("billing", &msgs[i])
			}
			if tc.before > 0 {
				if err := batch(store, recs[:tc.before]); err != nil {
					t.Fatal(err)
				}
			}
			other := numbered(fmt.Sprintf("%s before %d ", tc.name, try), "orders", 1)
			ahead := []inbox.Record{inbox.RecordOf("billing", &other[0])}
			copies := 1
			if tc.inARow {
				copies = 2
			}
			for range copies {
				if err := once(tc.store, ahead); err != nil {
					t.Fatal(err)
				}
			}
			before := counter.n.Load()
			if err := tc.run(tc.store, recs); err != nil {
				t.Fatalf("%s: %v", tc.name, err)
			}
			trips = counter.n.Load() - before
		}
		if trips != tc.want {
			t.Errorf("%s: %d round trips, want %d", tc.name, trips, tc.want)
		}
	}
}
