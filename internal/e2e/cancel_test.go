package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/pgstore/pgadmin"
)

// TestCancelled: a message that its program, or an operator, has cancelled is never published; what
// comes after it in its key is.
//
//test:sessions
func TestCancelled(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		due := time.Now().Add(time.Second)
		w.enqueue(t,
			waybill.Message{ID: "reminder", Topic: "orders", Key: "17", DeliverAt: due},
			waybill.Message{ID: "kept", Topic: "orders", Key: "17", DeliverAt: due},
			waybill.Message{ID: "next year", Topic: "orders", DeliverAt: due.AddDate(1, 0, 0)})

		_, err := w.writer.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, rec *outbox.Recorder) error {
			rec.Record(waybill.Message{ID: "paid", Topic: "orders", Key: "17"})
			done, err := w.writer.Cancel(ctx, tx, outbox.Identity{ID: "reminder"})
			if err == nil && done != (outbox.Cancellation{Removed: 1}) {
				t.Errorf("Cancel() = %+v, want it removed before a relay could claim it", done)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		b := newSickBroker(map[string]int{"sick1": 1 << 30})
		w.startRelay(t, b, relay.Config{Retry: waybill.RetryPolicy{MaxRetries: 10, BaseDelay: time.Hour}})
		w.enqueue(t, ofKey("orders", "sick")...)
		w.waitStatus(t, "sick1", inspect.Waiting)
		for _, id := range []string{"sick1", "next year"} {
			done, err := w.store.CancelMessage(t.Context(), outbox.Identity{ID: id, Source: w.state(t, id).Source, Tenant: waybill.DefaultTenant}, deadletter.Act{By: "ann"})
			if err != nil || done.Removed != 1 {
				t.Errorf("CancelMessage(%s) = %+v, %v", id, done, err)
			}
		}
		wantAttempts(t, b, "sick", "sick1", "sick2", "sick3")
		for _, id := range []string{"paid", "kept", "sick3"} { // kept was due with the reminder, and after it
			w.waitStatus(t, id, inspect.Published)
		}
		for _, id := range []string{"reminder", "sick1", "next year"} {
			w.waitStatus(t, id, inspect.Discarded)
			if b.count(id) != 0 {
				t.Errorf("%s was published", id)
			}
		}
	})
}

// TestCancelled_Roles: an operator may cancel what is pending, waits or is scheduled; who enqueues,
// consumes or reads may not.
//
//test:sessions
func TestCancelled_Roles(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	as := w.makeRoles(t)
	writer, err := outbox.NewWriter(as(pgadmin.RoleWriter), outbox.Config{Source: "shop", Observer: quiet})
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{"waiting", "behind", "scheduled", "pending"}
	_, err = writer.InTx(t.Context(), func(_ context.Context, _ pgx.Tx, rec *outbox.Recorder) error {
		for _, id := range ids {
			rec.Record(waybill.Message{ID: id, Topic: "orders", Key: "k", DeliverAt: map[string]time.Time{"scheduled": time.Now().Add(time.Hour)}[id]})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	settleInPart(t, as(pgadmin.RoleRelay))
	for _, id := range ids {
		for _, role := range []pgadmin.Role{pgadmin.RoleWriter, pgadmin.RoleScheduler, pgadmin.RoleConsumer, pgadmin.RoleInbox, pgadmin.RoleReader, pgadmin.RoleAPI, pgadmin.RoleOperator} {
			done, err := as(role).CancelMessage(t.Context(), outbox.Identity{ID: id, Source: "shop", Tenant: waybill.DefaultTenant}, deadletter.Act{By: "ann"})
			if may := role == pgadmin.RoleOperator; (err == nil) != may || (done.Removed == 1) != may {
				t.Errorf("CancelMessage(%s) as a %s = %+v, %v", id, role, done, err)
			}
		}
		w.waitStatus(t, id, inspect.Discarded)
	}
}

// settleInPart lets the messages of TestCancelled_Roles wait, or be scheduled, as their ids say.
func settleInPart(t *testing.T, source contract.Source) {
	t.Helper()
	lease, err := source.RenewLanes(t.Context(), contract.LeaseRequest{Node: "r", Join: true, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := source.LeaveLanes(context.Background(), "r"); err != nil {
			t.Errorf("LeaveLanes() = %v", err)
		}
	})
	claims, err := source.ClaimMessages(t.Context(), contract.ClaimRequest{Lanes: lease.Lanes, Limit: 10})
	if err != nil || len(claims) != 4 {
		t.Fatalf("claimed %d messages, %v, want 4", len(claims), err)
	}
	req := contract.SettleRequest{Node: "r"}
	for i, c := range claims {
		st := contract.Settlement{Claim: &claims[i], Outcome: contract.Wait, After: time.Hour, Behind: c.Message.ID == "behind"}
		if c.Message.ID == "scheduled" {
			st.Outcome = contract.Schedule
		}
		if c.Message.ID != "pending" {
			req.Settlements = append(req.Settlements, st)
		}
	}
	if lost, err := source.SettleMessages(t.Context(), req); err != nil || len(lost) > 0 {
		t.Fatalf("SettleMessages() = %v, %v", lost, err)
	}
}
