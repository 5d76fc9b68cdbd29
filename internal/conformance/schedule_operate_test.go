package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/schedule"
	"github.com/waybill-go/waybill/store/pgstore"
)

// operateSchedules does all that an operator can to the schedule sweep and the message reminder,
// and lets a relay release what was run by hand.
func operateSchedules(t *testing.T, operator schedule.OperatorStore, releases contract.Source) {
	t.Helper()
	o, err := schedule.NewOperator(operator, schedule.OperatorConfig{})
	must(t, err)
	act := deadletter.Act{By: "ann", Why: "test"}
	_, err = o.RunNow(t.Context(), "sweep", act)
	must(t, err)
	released, err := releases.ReleaseScheduled(t.Context(), 10)
	must(t, err)
	if released != 1 {
		t.Errorf("ReleaseScheduled() = %d, want the message that was run by hand", released)
	}
	for _, c := range []struct {
		what, on string
		do       func(context.Context, string, deadletter.Act) (bool, error)
	}{{"Pause", "sweep", o.Pause}, {"Resume", "sweep", o.Resume}, {"Remove", "sweep", o.Remove}, {"Cancel", "reminder", o.Cancel}} {
		if done, err := c.do(t.Context(), c.on, act); !done || err != nil {
			t.Errorf("%s() as an operator = %v, %v", c.what, done, err)
		}
	}
}

// TestPostgres_ScheduleChangeIsAudited lets the audit log refuse an entry: then the change is not
// made either.
func TestPostgres_ScheduleChangeIsAudited(t *testing.T) {
	t.Parallel()
	p := newPostgres(t, nil, pgstore.Config{})
	cfg := p.newSchema(t)
	store, err := pgstore.New(p.pool, cfg)
	must(t, err)
	_, err = p.pool.Exec(t.Context(), "ALTER TABLE "+tableOf(cfg, "audit_log")+" ADD CHECK (actor <> 'mallory')")
	must(t, err)
	t.Cleanup(func() { p.drop(t, cfg) })
	s, err := schedule.NewScheduler(store, schedule.Config{Source: "shop"})
	must(t, err)
	_, err = store.Transact(t.Context(), func(ctx context.Context, tx pgx.Tx) (outbox.Batch, error) {
		_, err := s.After(ctx, tx, waybill.Message{ID: "reminder", Topic: "orders"}, time.Hour)
		must(t, err)
		return outbox.Batch{}, s.Put(ctx, tx, schedule.Recurring{Name: "sweep", Every: time.Hour, Message: waybill.Message{Topic: "orders"}})
	})
	must(t, err)
	o, err := schedule.NewOperator(store, schedule.OperatorConfig{})
	must(t, err)
	before, err := store.Schedule(t.Context(), "sweep")
	must(t, err)
	mallory := deadletter.Act{By: "mallory"}
	for what, do := range map[string]func() (bool, error){
		"Pause":  func() (bool, error) { return o.Pause(t.Context(), "sweep", mallory) },
		"Remove": func() (bool, error) { return o.Remove(t.Context(), "sweep", mallory) },
		"Cancel": func() (bool, error) { return o.Cancel(t.Context(), "reminder", mallory) },
		"RunNow": func() (bool, error) { _, err := o.RunNow(t.Context(), "sweep", mallory); return false, err },
	} {
		if done, err := do(); done || err == nil {
			t.Errorf("%s() = %v, %v, want the error of the audit log", what, done, err)
		}
	}
	if after, err := store.Schedule(t.Context(), "sweep"); err != nil || after.Version != before.Version {
		t.Errorf("Schedule() = %+v, %v, want it as it was", after, err)
	}
	list, err := store.ScheduledMessages(t.Context(), nil, 10)
	if err != nil || len(list) != 1 || list[0].ID != "reminder" {
		t.Errorf("ScheduledMessages() = %+v, %v, want the reminder alone", list, err)
	}
}
