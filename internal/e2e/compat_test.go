package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/compat"
)

func (w *world) records(t *testing.T, tenant string) *compat.Records[pgx.Tx] {
	t.Helper()
	r, err := compat.NewRecords(w.store, tenant, "billing")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// checkHandleMark is the flow of the older inboxes. seen is called when the check has said
// "not processed", before anything is marked.
func (w *world) checkHandleMark(ctx context.Context, r *compat.Records[pgx.Tx], id string, seen func()) error {
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		done, err := r.IsProcessed(ctx, tx, id)
		if err != nil || done {
			return err
		}
		seen()
		if _, err := tx.Exec(ctx, "INSERT INTO "+w.table("effects")+" (consumer, message_id) VALUES ('billing', $1)", id); err != nil {
			return err
		}
		_, err = r.MarkProcessed(ctx, tx, id, "OrderCreated", compat.Details{})
		return err
	})
}

// TestCompatTwoMarks: two callers both see "not processed", and both handle. One commits.
//
//test:sessions
func TestCompatTwoMarks(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		r := w.records(t, "acme")
		var both sync.WaitGroup // both have seen that it is not processed
		both.Add(2)
		errs := make([]error, 2)
		var callers sync.WaitGroup
		for i := range errs {
			callers.Go(func() {
				errs[i] = w.checkHandleMark(t.Context(), r, "m-1", func() { both.Done(); both.Wait() })
			})
		}
		callers.Wait()
		if errs[0] != nil {
			errs[0], errs[1] = errs[1], errs[0]
		}
		if errs[0] != nil || !errors.Is(errs[1], compat.ErrAlreadyProcessed) && !waybill.IsConflict(errs[1]) {
			t.Errorf("the two callers got %v and %v, want one commit and one refusal", errs[0], errs[1])
		}
		if n := w.number(t, "SELECT count(*) FROM "+w.table("effects")+" WHERE message_id = 'm-1'"); n != 1 {
			t.Errorf("committed effects = %d, want 1", n)
		}
		if err := w.checkHandleMark(t.Context(), r, "m-1", func() { t.Error("the redelivery is not seen as processed") }); err != nil {
			t.Errorf("redelivery: %v", err)
		}
	})
}

// TestCompatTenants: what one tenant reads and cleans up is its own.
//
//test:sessions
func TestCompatTenants(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		acme, zenith := w.records(t, "acme"), w.records(t, "zenith")
		mark := func(r *compat.Records[pgx.Tx], source string) {
			t.Helper()
			w.inTx(t, func(tx pgx.Tx) error {
				d := compat.Details{Payload: []byte(`{}`), Source: source, Extra: json.RawMessage(`{"by":"me"}`)}
				_, err := r.MarkProcessed(t.Context(), tx, "m-1", "OrderCreated", d)
				return err
			})
		}
		mark(acme, "shop")
		mark(zenith, "till")
		w.exec(t, "UPDATE "+w.table("inbox")+" SET processed_at = processed_at - interval '31 days'")
		w.inTx(t, func(tx pgx.Tx) error {
			n, err := acme.CleanupOldRecords(t.Context(), tx, 30)
			if n != 1 && err == nil {
				t.Errorf("CleanupOldRecords(30) = %d, want 1", n)
			}
			return err
		})
		w.inTx(t, func(tx pgx.Tx) error {
			if _, found, err := acme.GetRecord(t.Context(), tx, "m-1"); found || err != nil {
				t.Errorf("the tenant's record after the clean-up: found %v, %v", found, err)
			}
			got, found, err := zenith.GetRecord(t.Context(), tx, "m-1")
			if !found || err != nil || got.Tenant != "zenith" || got.Source != "till" || got.Type != "OrderCreated" ||
				got.PayloadHash == "" || string(got.Extra) == "" || time.Since(got.ProcessedAt) < 30*24*time.Hour {
				t.Errorf("the other tenant's record = %+v, %v, %v", got, found, err)
			}
			return nil
		})
	})
}

// TestCompatStates: a message is added once per consumer, and the transaction of the one who
// comes second does not commit by accident.
//
//test:sessions
func TestCompatStates(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		states, err := compat.NewStates(w.store, "")
		if err != nil {
			t.Fatal(err)
		}
		add := func(consumer string) error {
			return pgx.BeginFunc(t.Context(), w.pool, func(tx pgx.Tx) error {
				_, err := states.TryAdd(t.Context(), tx, compat.State{MessageID: "m-1", ConsumerID: consumer})
				return err
			})
		}
		for _, c := range []struct {
			consumer string
			want     error
		}{{"billing", nil}, {"shipping", nil}, {"billing", compat.ErrAlreadyProcessed}} {
			if err := add(c.consumer); !errors.Is(err, c.want) {
				t.Errorf("TryAdd(%s) = %v, want %v", c.consumer, err, c.want)
			}
		}
	})
}
