package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/schedule"
	"github.com/waybill-go/waybill/store/pgstore"
	"github.com/waybill-go/waybill/store/pgstore/pgadmin"
)

// TestRoles does each job as the role that the script makes for it: what it grants is enough.
//
//test:sessions
func TestRoles(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	as := w.makeRoles(t)
	broker := membroker.New()
	defer broker.Close()

	r, err := relay.New(as(pgadmin.RoleRelay), broker.Publisher(), quick(relay.Config{Order: relay.Park, Retention: relay.KeepNothing}))
	if err != nil {
		t.Fatal(err)
	}
	fixed := make(chan struct{})
	sub := consumer.Subscription{Group: "billing", Topics: []string{"orders"}}
	c, err := consumer.New(broker, sub, as(pgadmin.RoleConsumer), func(_ context.Context, _ pgx.Tx, m *waybill.Message) error {
		select {
		case <-fixed:
			return nil
		default:
			if m.Subject == "poison" {
				return waybill.PermanentError(waybill.ReasonRejected, errors.New("no such customer"))
			}
			return nil
		}
	}, quickConsumer(consumer.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	run(t, t.Context(), c.Run)
	eventually(t, "the consumer's queue is there", func() bool {
		return broker.Publisher().Send(t.Context(), []contract.Outgoing{{Message: &waybill.Message{ID: "early", Source: "s", Type: "t", Topic: "orders"}, DedupID: "early"}})()[0] == nil
	})
	run(t, t.Context(), r.Run)

	writer, err := outbox.NewWriter(as(pgadmin.RoleWriter), outbox.Config{Source: "shop", Unique: true, Observer: quiet})
	if err != nil {
		t.Fatal(err)
	}
	_, err = writer.InTx(t.Context(), func(_ context.Context, _ pgx.Tx, rec *outbox.Recorder) error {
		rec.Record(append(numbered("plain", "orders", 5),
			waybill.Message{ID: "poison", Topic: "orders", Subject: "poison"}, waybill.Message{ID: "lost", Topic: "nowhere", Key: "k"})...)
		return nil
	})
	if err != nil {
		t.Fatalf("enqueue as a writer: %v", err)
	}

	operator, reader := as(pgadmin.RoleOperator), as(pgadmin.RoleReader)
	var letters []deadletter.Letter
	eventually(t, "both give one up", func() bool {
		letters, err = reader.DeadLetters(t.Context(), deadletter.Filter{})
		return err == nil && len(letters) == 2
	})
	close(fixed)
	for _, l := range letters {
		if l.Origin == deadletter.FromRelay {
			_, err = operator.ResolveDeadLetter(t.Context(), l.Number, deadletter.Act{By: "ann", Why: "nobody wants it"})
		} else {
			_, err = operator.RequeueDeadLetter(t.Context(), l.Number, deadletter.Act{By: "ann"})
		}
		if err != nil {
			t.Errorf("deal with letter %d as an operator: %v", l.Number, err)
		}
	}
	eventually(t, "the poison is handled", func() bool {
		return w.number(t, "SELECT count(*) FROM "+w.table("inbox")+" WHERE message_id = 'poison' AND NOT dead") == 1
	})
	for _, role := range []pgadmin.Role{pgadmin.RoleRelay, pgadmin.RoleConsumer} {
		keeper, err := janitor.New(as(role), janitor.Config{Observer: quiet})
		if err == nil {
			_, err = keeper.Clean(t.Context())
		}
		if err == nil {
			err = as(role).FoldDeadLetters(t.Context())
		}
		if err != nil {
			t.Errorf("keep the tables as a %s: %v", role, err)
		}
	}
	leases := as(pgadmin.RoleConsumer)
	answer, err := leases.TryBegin(t.Context(), lease.Request{Key: "k", TTL: time.Minute})
	if err == nil {
		_, err = leases.MarkProcessed(t.Context(), lease.Lease{Key: "k", ID: answer.LeaseID})
	}
	if err == nil {
		_, err = leases.PurgeLeases(t.Context(), inbox.DefaultRetention, 10)
	}
	if err != nil {
		t.Errorf("lease a key as a consumer: %v", err)
	}
	at := inbox.Position{Partition: inbox.Partition{Group: "g", Topic: "orders"}}
	for _, was := range []*contract.Progress{nil, {}} {
		if _, err := leases.TakePartition(t.Context(), at.Partition, was, contract.Progress{}); err != nil {
			t.Errorf("take a partition as a consumer: %v", err)
		}
	}
	rec := inbox.Record{Key: inbox.Key{Tenant: "t", Consumer: "c", Source: "s", Message: "m"}, MessageID: "m", At: &at}
	if _, err := leases.ProcessOnce(t.Context(), rec, func(context.Context, pgx.Tx) error { return nil }); err != nil {
		t.Errorf("process a message at an offset as a consumer: %v", err)
	}
	if p, _, err := reader.ReadProgress(t.Context(), at.Partition); p.Next != 1 || err != nil {
		t.Errorf("ReadProgress as a reader = %+v, %v, want the next offset 1", p, err)
	}
	if rec, err := reader.ReadLease(t.Context(), "k"); err != nil || rec.Status != lease.Processed {
		t.Errorf("ReadLease as a reader = %+v, %v", rec, err)
	}
	api := as(pgadmin.RoleAPI)
	if _, err := api.TryBegin(t.Context(), lease.Request{Key: "http:POST:/payments::k", TTL: time.Minute}); err != nil {
		t.Errorf("lease a key as an API: %v", err)
	}
	if err := api.SaveResponse(t.Context(), "k", []byte("paid"), time.Minute); err != nil {
		t.Errorf("SaveResponse as an API: %v", err)
	}
	if got, found, err := api.FindResponse(t.Context(), "k"); !found || string(got) != "paid" || err != nil {
		t.Errorf("FindResponse as an API = %q, %v, %v", got, found, err)
	}
	w.psql(t, "SET ROLE "+pgx.Identifier{w.schema + "_" + string(pgadmin.RoleInbox)}.Sanitize()+"; SELECT "+w.table("inbox_record")+"('billing', 'by sql', 't')")
	runSagaAsRoles(t, as)
	replay, err := operator.StartReplay(t.Context(), deadletter.Plan{}.Complete(), deadletter.Act{By: "ann"})
	if err == nil {
		_, err = as(pgadmin.RoleRelay).AdvanceReplay(t.Context(), replay, 10)
	}
	if err != nil {
		t.Errorf("replay as an operator and a relay: %v", err)
	}
	operateSchedules(t, as)
	if _, err := reader.OutboxStats(t.Context()); err != nil {
		t.Errorf("OutboxStats as a reader: %v", err)
	}
	if _, err := as(pgadmin.RoleWriter).OutboxStats(t.Context()); err == nil {
		t.Error("a writer may read the messages of others")
	}
	done, err := as(pgadmin.RoleRelay).MaintainArchive(t.Context(), contract.MaintainRequest{Retention: 1, BatchSize: 10})
	if err != nil {
		t.Errorf("MaintainArchive as a relay: %+v, %v", done, err)
	}
}

// runSagaAsRoles starts a saga and changes it, as a consumer and then as an operator.
func runSagaAsRoles(t *testing.T, as func(pgadmin.Role) *pgstore.Store[pgx.Tx]) {
	t.Helper()
	handler, operator, reader := as(pgadmin.RoleConsumer), as(pgadmin.RoleOperator), as(pgadmin.RoleReader)
	in := saga.Instance{ID: saga.ID{Tenant: waybill.DefaultTenant, Saga: "order", Key: "o1"}, Status: saga.Running}
	key := inbox.Key{Tenant: waybill.DefaultTenant, Consumer: "order", Source: "s", Message: "saga"}
	_, err := handler.ProcessOnce(t.Context(), inbox.Record{Key: key, MessageID: "saga"}, func(ctx context.Context, tx pgx.Tx) error {
		for range 2 {
			if ok, err := handler.WriteSaga(ctx, tx, &in, saga.Entry{Status: in.Status}); !ok || err != nil {
				return fmt.Errorf("WriteSaga() = %v, %w", ok, err)
			}
		}
		_, err := handler.ReadSaga(ctx, tx, in.ID, true)
		return err
	})
	if err != nil {
		t.Errorf("handle a saga as a consumer: %v", err)
	}
	m := waybill.Message{ID: "saga", Source: "s", Type: "t", Topic: "orders", Tenant: waybill.DefaultTenant}
	act := deadletter.Entry{Action: saga.ActResume, By: "ann"}
	if ok, err := operator.ChangeSaga(t.Context(), in, saga.Entry{Status: in.Status}, &m, act); !ok || err != nil {
		t.Errorf("ChangeSaga() as an operator = %v, %v, want true", ok, err)
	}
	if list, err := reader.SagaLog(t.Context(), in.ID, 0, 10); len(list) != 3 || err != nil {
		t.Errorf("SagaLog() as a reader = %+v, %v, want 3 entries", list, err)
	}
	if _, err := reader.SagaCounts(t.Context()); err != nil {
		t.Errorf("SagaCounts() as a reader: %v", err)
	}
}

// operateSchedules makes a schedule and a message as a writer, and changes them as an operator.
func operateSchedules(t *testing.T, as func(pgadmin.Role) *pgstore.Store[pgx.Tx]) {
	t.Helper()
	writer := as(pgadmin.RoleWriter)
	s, err := schedule.NewScheduler(writer, schedule.Config{Source: "shop", Observer: quiet})
	if err != nil {
		t.Fatal(err)
	}
	_, err = writer.Transact(t.Context(), func(ctx context.Context, tx pgx.Tx) (outbox.Batch, error) {
		if _, err := s.After(ctx, tx, waybill.Message{ID: "reminder", Topic: "orders"}, time.Hour); err != nil {
			return outbox.Batch{}, err
		}
		return outbox.Batch{}, nil
	})
	if err != nil {
		t.Fatalf("schedule as a writer: %v", err)
	}
	scheduler := as(pgadmin.RoleScheduler)
	if s, err = schedule.NewScheduler(scheduler, schedule.Config{Source: "shop", Observer: quiet}); err != nil {
		t.Fatal(err)
	}
	_, err = scheduler.Transact(t.Context(), func(ctx context.Context, tx pgx.Tx) (outbox.Batch, error) {
		return outbox.Batch{}, s.Put(ctx, tx, schedule.Recurring{Name: "sweep", Every: time.Hour, Message: waybill.Message{Topic: "orders"}})
	})
	if err != nil {
		t.Fatalf("put a schedule as a scheduler: %v", err)
	}
	operator, ann := as(pgadmin.RoleOperator), deadletter.Act{By: "ann"}
	o, err := schedule.NewOperator(operator, schedule.OperatorConfig{Observer: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.RunNow(t.Context(), "sweep", ann); err != nil {
		t.Errorf("RunNow as an operator: %v", err)
	}
	for _, do := range []struct {
		what string
		on   string
		do   func(context.Context, string, deadletter.Act) (bool, error)
	}{{"Pause", "sweep", o.Pause}, {"Resume", "sweep", o.Resume}, {"Remove", "sweep", o.Remove}, {"Cancel", "reminder", o.Cancel}} {
		if done, err := do.do(t.Context(), do.on, ann); !done || err != nil {
			t.Errorf("%s as an operator = %v, %v", do.what, done, err)
		}
	}
	if _, err := as(pgadmin.RoleReader).ScheduledMessages(t.Context(), nil, 10); err != nil {
		t.Errorf("ScheduledMessages as a reader: %v", err)
	}
	if _, err := as(pgadmin.RoleReader).ScheduleStats(t.Context()); err != nil {
		t.Errorf("ScheduleStats as a reader: %v", err)
	}
}

// makeRoles runs the script, and returns what opens the store as one of its roles.
func (w *world) makeRoles(t *testing.T) (as func(pgadmin.Role) *pgstore.Store[pgx.Tx]) {
	t.Helper()
	prefix := w.schema + "_"
	script, err := w.store.Admin().RolesSQL(prefix)
	if err != nil {
		t.Fatal(err)
	}
	w.psql(t, script)
	w.psql(t, script) // again does no harm
	t.Cleanup(func() {
		for _, role := range pgadmin.Roles() {
			name := pgx.Identifier{prefix + string(role)}.Sanitize()
			if _, err := w.pool.Exec(context.Background(), fmt.Sprintf("REASSIGN OWNED BY %[1]s TO CURRENT_USER; DROP OWNED BY %[1]s; DROP ROLE %[1]s", name)); err != nil {
				t.Error(err)
			}
		}
	})
	return func(role pgadmin.Role) *pgstore.Store[pgx.Tx] {
		pool, err := pgxpool.New(context.Background(), withParams(t, w.dsn, map[string]string{"role": prefix + string(role), "pool_max_conns": "4"}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		store, err := pgstore.New(pool, pgstore.Config{Schema: w.schema})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
}
