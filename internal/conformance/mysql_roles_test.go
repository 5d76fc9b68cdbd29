package conformance

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/schedule"
	"github.com/waybill-go/waybill/store/mysqlstore"
)

// mysqlRoles are stores whose sessions have one of the roles each that the script makes.
type mysqlRoles struct {
	*testing.T
	ctx   context.Context
	owner *mysqlStore

	writer, scheduler, relay, consumer, inbox, operator, reader, api *mysqlStore
}

func newMySQLRoles(t *testing.T) *mysqlRoles {
	t.Helper()
	m := newMySQL(t, nil, mysqlstore.Config{})
	owner := m.migrated(t)
	prefix := "r" + owner.name[len(owner.name)-12:] + "_"
	script, err := owner.RolesSQL(prefix)
	must(t, err)
	earlier := "CREATE ROLE `" + prefix + "writer`;\nGRANT INSERT, UPDATE ON " + owner.table("outbox") + " TO `" + prefix + "writer`;\n"
	for _, script := range []string{earlier, script, script} { // again does no harm
		for stmt := range strings.SplitSeq(script, ";\n") {
			if strings.TrimSpace(stmt) != "" {
				must(t, owner.exec(stmt))
			}
		}
	}
	return &mysqlRoles{
		T: t, ctx: context.Background(), owner: owner,
		writer: m.as(t, owner, prefix, mysqlstore.RoleWriter), scheduler: m.as(t, owner, prefix, mysqlstore.RoleScheduler), relay: m.as(t, owner, prefix, mysqlstore.RoleRelay),
		consumer: m.as(t, owner, prefix, mysqlstore.RoleConsumer), inbox: m.as(t, owner, prefix, mysqlstore.RoleInbox), operator: m.as(t, owner, prefix, mysqlstore.RoleOperator),
		reader: m.as(t, owner, prefix, mysqlstore.RoleReader), api: m.as(t, owner, prefix, mysqlstore.RoleAPI),
	}
}

// as opens a store of the owner's database as a user with a role.
func (m *mysqlServer) as(t *testing.T, owner *mysqlStore, prefix string, role mysqlstore.Role) *mysqlStore {
	t.Helper()
	name := prefix + string(role)
	t.Cleanup(func() { must(t, owner.exec("DROP ROLE `"+name+"`")) })
	for _, stmt := range []string{"CREATE USER `u" + name + "` IDENTIFIED BY 'pw'", "GRANT `" + name + "` TO `u" + name + "`"} {
		must(t, owner.exec(stmt))
	}
	t.Cleanup(func() { must(t, owner.exec("DROP USER `u"+name+"`")) })
	mariaDB := owner.exec("SET DEFAULT ROLE `" + name + "` FOR `u" + name + "`")
	if mariaDB != nil {
		must(t, owner.exec("SET DEFAULT ROLE `"+name+"` TO `u"+name+"`"))
	}
	cfg, err := mysql.ParseDSN(mysqlURL())
	must(t, err)
	cfg.User, cfg.Passwd, cfg.DBName = "u"+name, "pw", owner.name
	db, err := sql.Open("mysql", cfg.FormatDSN())
	must(t, err)
	t.Cleanup(func() { db.Close() })
	store, err := mysqlstore.New(db, m.cfg)
	must(t, err)
	return &mysqlStore{Store: store, server: m, db: db, name: owner.name}
}

// TestMySQLStore_Roles does each job as the role that the script makes for it: what it grants is
// enough.
func TestMySQLStore_Roles(t *testing.T) {
	t.Parallel()
	r := newMySQLRoles(t)
	r.enqueue()
	r.publish()
	r.consume()
	must(t, r.inbox.exec("CALL "+r.owner.table("inbox_record")+"('billing', 'by sql', 't', NULL, NULL, NULL, NULL)"))
	r.operate()
	r.schedule()
	r.look()
	r.answer()
	r.keep()
	r.cancel()
}

// answer does what package idempotency does for a request, twice for an expired one.
func (r *mysqlRoles) answer() {
	begin(r.T, r.api, "http:POST:/payments::k", time.Minute)
	for range 2 {
		must(r.T, r.api.SaveResponse(r.ctx, "k", []byte("paid"), time.Minute))
		if got, found, err := r.api.FindResponse(r.ctx, "k"); !found || string(got) != "paid" || err != nil {
			r.Errorf("FindResponse() as an API = %q, %v, %v", got, found, err)
		}
		must(r.T, r.owner.exec("UPDATE "+r.owner.table("settings")+" SET clock_offset_us = clock_offset_us + 7200000000"))
	}
}

func (r *mysqlRoles) enqueue() {
	msgs := make([]waybill.Message, 6)
	for i, id := range []string{"published", "retried", "dead", "edited", "forked", "later"} {
		msgs[i] = waybill.Message{ID: id, Topic: "orders", Key: id, Source: "shop", Type: "t"}
		if id == "later" {
			msgs[i].DeliverAt = time.Now().Add(time.Hour)
		}
		msgs[i].Complete()
	}
	for _, unique := range []bool{false, true} {
		for range 2 {
			_, err := r.writer.Transact(r.ctx, func(context.Context, *sql.Tx) (outbox.Batch, error) {
				return outbox.Batch{Messages: msgs, Remember: unique}, nil
			})
			must(r.T, err)
		}
		for i := range msgs {
			msgs[i].ID += " unique"
		}
	}
	r.enqueueAtOnce(msgs[0])
}

// enqueueAtOnce lets two transactions enqueue an id at the same time: the second one waits for the
// first, and changes its row.
func (r *mysqlRoles) enqueueAtOnce(m waybill.Message) {
	first := beginSQL(r.T, r.writer.db)
	m.ID = "twice"
	_, err := r.writer.EnqueueMessages(r.ctx, first, outbox.Batch{Messages: []waybill.Message{m}, Remember: true})
	must(r.T, err)
	ended := make(chan error, 1)
	go func() {
		isNew, err := r.writer.Transact(r.ctx, func(context.Context, *sql.Tx) (outbox.Batch, error) {
			return outbox.Batch{Messages: []waybill.Message{m}, Remember: true}, nil
		})
		if err == nil && isNew[0] {
			err = errors.New("the id was enqueued twice")
		}
		ended <- err
	}()
	waitFor(r.T, "the second one waits", func() bool {
		var n int
		must(r.T, r.owner.db.QueryRow("SELECT count(*) FROM information_schema.processlist WHERE db = ? AND info LIKE 'INSERT INTO%outbox_ids%'", r.writer.name).Scan(&n))
		return n > 0
	})
	must(r.T, first.Commit())
	must(r.T, <-ended)
}

func (r *mysqlRoles) lease(give ...int) contract.Lease {
	held, err := r.relay.RenewLanes(r.ctx, contract.LeaseRequest{Node: "n1", Join: true, TTL: time.Minute, Give: give})
	must(r.T, err)
	return held
}

func (r *mysqlRoles) claim(held contract.Lease) []contract.Claim {
	claims, err := r.relay.ClaimMessages(r.ctx, contract.ClaimRequest{Lanes: held.Lanes, Limit: 50, Due: true})
	must(r.T, err)
	return claims
}

// publish settles with every outcome.
func (r *mysqlRoles) publish() {
	held := r.lease()
	outcomes := map[string]contract.Settlement{
		"retried": {Outcome: contract.Wait, Attempts: 1, Error: "no"},
		"dead":    {Outcome: contract.Dead, Attempts: 1, Error: "no", Reason: waybill.ReasonRejected, Park: true},
		"edited":  {Outcome: contract.Dead, Attempts: 1, Error: "no", Reason: waybill.ReasonRejected},
		"forked":  {Outcome: contract.Fanout, Destinations: []string{"a", "b"}},
		"later":   {Outcome: contract.Schedule},
	}
	claimed := 0
	for range 3 { // what waits takes a step more each time
		claims := r.claim(held)
		claimed = max(claimed, len(claims))
		var list []contract.Settlement
		for i := range claims {
			c := &claims[i]
			st := outcomes[c.Message.ID]
			if c.Waiting {
				st = contract.Settlement{Outcome: contract.Published}
			}
			st.Claim, st.Outcome = c, cmp.Or(st.Outcome, contract.Published)
			list = append(list, st)
		}
		lost, err := r.relay.SettleMessages(r.ctx, contract.SettleRequest{Node: "n1", Settlements: list, Archive: true})
		must(r.T, err)
		if len(lost) > 0 {
			r.Errorf("lanes %v are lost", lost)
		}
	}
	if claimed < 6 {
		r.Errorf("claimed %d messages, want all", claimed)
	}
	must(r.T, r.owner.exec("UPDATE "+r.owner.table("settings")+" SET clock_offset_us = 7200000000"))
	if n, err := r.relay.ReleaseScheduled(r.ctx, 10); n != 1 || err != nil {
		r.Errorf("ReleaseScheduled() = %d, %v, want 1", n, err)
	}
	_, _, err := r.relay.CountParked(r.ctx, held.Lanes)
	must(r.T, err)
	_, err = r.relay.MaintainArchive(r.ctx, contract.MaintainRequest{Retention: 1, BatchSize: 10})
	must(r.T, err)
	r.lease(held.Lanes[0].Number)
}

func (r *mysqlRoles) consume() {
	s, nothing := r.consumer, func(context.Context, *sql.Tx) error { return nil }
	key := inbox.Key{Tenant: "t", Consumer: "c", Source: "s", Message: "m1"}
	must(r.T, s.SaveStarts(r.ctx, key, 1))
	must(r.T, s.SaveStarts(r.ctx, key, 0))
	must(r.T, s.SaveAttempt(r.ctx, key, contract.FailedAttempt{Count: 1, Error: "no"}))
	_, err := s.FailedAttempts(r.ctx, key)
	must(r.T, err)
	for range 2 {
		_, err = s.ProcessOnce(r.ctx, inbox.Record{Key: key, MessageID: "m1", Retried: true}, nothing)
		must(r.T, err)
	}
	m := waybill.Message{ID: "poison", Topic: "orders", Source: "s", Tenant: "t"}
	m.Complete()
	_, err = s.BuryMessage(r.ctx, inbox.Letter{Record: inbox.RecordOf("c", &m), Message: m, Reason: waybill.ReasonRejected, Error: "no", Attempts: 1})
	must(r.T, err)
	letters, err := r.operator.DeadLetters(r.ctx, deadletter.Filter{Consumer: "c"})
	must(r.T, err)
	_, err = r.operator.RequeueDeadLetter(r.ctx, letters[0].Number, deadletter.Act{By: "ann"})
	must(r.T, err)
	letter, found, err := s.TakeRequeued(r.ctx, "c", time.Minute)
	must(r.T, err)
	ran, err := s.RunRequeued(r.ctx, letter, "n", nothing)
	must(r.T, err)
	if !found || !ran {
		r.Errorf("the requeued letter was found: %v, and run: %v", found, ran)
	}
	answer, err := s.TryBegin(r.ctx, lease.Request{Key: "k", TTL: time.Minute})
	must(r.T, err)
	_, err = s.MarkProcessed(r.ctx, lease.Lease{Key: "k", ID: answer.LeaseID})
	must(r.T, err)
	_, err = s.PurgeLeases(r.ctx, inbox.DefaultRetention, 10)
	must(r.T, err)
	at := &inbox.Position{Partition: inbox.Partition{Group: "g", Topic: "orders"}}
	for _, was := range []*contract.Progress{nil, {}} {
		_, err = s.TakePartition(r.ctx, at.Partition, was, contract.Progress{})
		must(r.T, err)
	}
	key.Message = "m2"
	_, err = s.ProcessOnce(r.ctx, inbox.Record{Key: key, MessageID: "m2", At: at}, nothing)
	must(r.T, err)
	r.runSaga()
}

// runSaga starts a saga and changes it, as a consumer and then as an operator.
func (r *mysqlRoles) runSaga() {
	in := saga.Instance{ID: saga.ID{Tenant: "t", Saga: "order", Key: "o1"}, Status: saga.Running}
	_, err := r.consumer.Transact(r.ctx, func(ctx context.Context, tx *sql.Tx) (outbox.Batch, error) {
		for range 2 {
			_, err := r.consumer.WriteSaga(ctx, tx, &in, saga.Entry{Status: in.Status})
			must(r.T, err)
		}
		again := saga.Instance{ID: in.ID, Status: saga.Running}
		_, err := r.consumer.WriteSaga(ctx, tx, &again, saga.Entry{Status: in.Status})
		must(r.T, err)
		_, err = r.consumer.ReadSaga(ctx, tx, in.ID, true)
		return outbox.Batch{}, err
	})
	must(r.T, err)
	m := waybill.Message{ID: "saga", Topic: "orders", Source: "s", Type: "t"}
	m.Complete()
	ok, err := r.operator.ChangeSaga(r.ctx, in, saga.Entry{Status: in.Status}, &m, deadletter.Entry{Action: saga.ActResume, By: "ann"})
	must(r.T, err)
	if !ok {
		r.Error("ChangeSaga() as an operator = false, want true")
	}
	if n, err := r.relay.ReleaseScheduled(r.ctx, 10); n != 1 || err != nil {
		r.Errorf("ReleaseScheduled() = %d, %v, want the message that lets the saga go on", n, err)
	}
}

func (r *mysqlRoles) operate() {
	act := deadletter.Act{By: "ann", Why: "test"}
	letters, err := r.operator.DeadLetters(r.ctx, deadletter.Filter{})
	must(r.T, err)
	for _, l := range letters {
		switch l.Message.ID {
		case "dead":
			_, err = r.operator.RequeueDeadLetter(r.ctx, l.Number, act)
		case "edited":
			topic := "elsewhere"
			_, err = r.operator.EditDeadLetter(r.ctx, l.Number, deadletter.Edit{Topic: &topic}, act)
		}
		must(r.T, err)
	}
	if len(letters) < 2 {
		r.Errorf("%d dead letters, want two at least", len(letters))
	}
	m := waybill.Message{ID: "unwanted", Topic: "orders", Source: "s"}
	m.Complete()
	_, err = r.consumer.BuryMessage(r.ctx, inbox.Letter{Record: inbox.RecordOf("c", &m), Message: m, Reason: waybill.ReasonRejected, Error: "no", Attempts: 1})
	must(r.T, err)
	replay, err := r.operator.StartReplay(r.ctx, deadletter.Plan{}.Complete(), act)
	must(r.T, err)
	_, err = r.relay.AdvanceReplay(r.ctx, replay, 10)
	must(r.T, err)
	_, err = r.operator.AdvanceReplay(r.ctx, replay, 10)
	must(r.T, err)
	must(r.T, r.operator.FoldDeadLetters(r.ctx))
	must(r.T, r.operator.RecordAudit(r.ctx, deadletter.Entry{Action: deadletter.ActResolve, By: "ann"}))
}

// schedule makes a schedule and a message as a writer, and operates them.
func (r *mysqlRoles) schedule() {
	s, err := schedule.NewScheduler(r.writer, schedule.Config{Source: "shop"})
	must(r.T, err)
	_, err = r.writer.Transact(r.ctx, func(ctx context.Context, tx *sql.Tx) (outbox.Batch, error) {
		_, err := s.After(ctx, tx, waybill.Message{ID: "reminder", Topic: "orders"}, time.Hour)
		must(r.T, err)
		id, err := s.After(ctx, tx, waybill.Message{ID: "moved", Topic: "orders"}, time.Hour)
		must(r.T, err)
		_, err = s.Reschedule(ctx, tx, id, time.Now().Add(48*time.Hour))
		must(r.T, err)
		_, err = s.Cancel(ctx, tx, id)
		return outbox.Batch{}, err
	})
	must(r.T, err)
	s, err = schedule.NewScheduler(r.scheduler, schedule.Config{Source: "shop"})
	must(r.T, err)
	_, err = r.scheduler.Transact(r.ctx, func(ctx context.Context, tx *sql.Tx) (outbox.Batch, error) {
		return outbox.Batch{}, s.Put(ctx, tx, schedule.Recurring{Name: "sweep", Every: time.Hour, Message: waybill.Message{Topic: "orders"}})
	})
	must(r.T, err)
	operateSchedules(r.T, r.operator, r.relay)
}

// cancel cancels whatever is left as an operator, which nobody else may but the relay.
func (r *mysqlRoles) cancel() {
	m := waybill.Message{ID: "left", Topic: "orders", Source: "shop"}
	m.Complete()
	later, waits, act := m, m, deadletter.Act{By: "ann"}
	later.ID, later.DeliverAt, waits.ID = "in a year", time.Now().AddDate(1, 0, 0), "waits"
	_, err := r.writer.Transact(r.ctx, func(context.Context, *sql.Tx) (outbox.Batch, error) {
		return outbox.Batch{Messages: []waybill.Message{later, waits}}, nil
	})
	must(r.T, err)
	for _, c := range r.claim(r.lease()) {
		st := contract.Settlement{Claim: &c, Outcome: contract.Wait, After: time.Hour}
		if c.DelayFor > 0 {
			st.Outcome = contract.Schedule
		}
		_, err = r.relay.SettleMessages(r.ctx, contract.SettleRequest{Node: "n1", Settlements: []contract.Settlement{st}})
		must(r.T, err)
	}
	_, err = r.writer.Transact(r.ctx, func(context.Context, *sql.Tx) (outbox.Batch, error) {
		return outbox.Batch{Messages: []waybill.Message{m}}, nil
	})
	must(r.T, err)
	left, err := r.operator.OutboxMessages(r.ctx, inspect.Filter{})
	must(r.T, err)
	seen := make(map[inspect.Status]bool)
	for _, s := range left {
		id := outbox.Identity{Source: s.Source, Tenant: s.Tenant, ID: s.ID}
		for role, other := range map[string]*mysqlStore{"writer": r.writer, "scheduler": r.scheduler, "consumer": r.consumer, "reader": r.reader, "api": r.api, "inbox": r.inbox} {
			if done, err := other.CancelMessage(r.ctx, id, act); err == nil {
				r.Errorf("CancelMessage(%s) as a %s = %+v, want an error", s.ID, role, done)
			}
		}
		done, err := r.operator.CancelMessage(r.ctx, id, act)
		must(r.T, err)
		seen[s.Status] = seen[s.Status] || done.Removed > 0
	}
	if !seen[inspect.Pending] || !seen[inspect.Waiting] || !seen[inspect.Scheduled] {
		r.Errorf("cancelled what was %v, want some of each status", seen)
	}
}

// look reads everything.
func (r *mysqlRoles) look() {
	s := r.reader
	for name, read := range map[string]func() error{
		"DeadLetters":      func() error { _, err := s.DeadLetters(r.ctx, deadletter.Filter{}); return err },
		"DeadLetterGroups": func() error { _, err := s.DeadLetterGroups(r.ctx, 10); return err },
		"AuditLog":         func() error { _, err := s.AuditLog(r.ctx, deadletter.AuditFilter{}); return err },
		"Replays":          func() error { _, err := s.Replays(r.ctx, 10); return err },
		"MessageStates":    func() error { _, err := s.MessageStates(r.ctx, "published"); return err },
		"OutboxMessages":   func() error { _, err := s.OutboxMessages(r.ctx, inspect.Filter{}); return err },
		"OutboxStats":      func() error { _, err := s.OutboxStats(r.ctx); return err },
		"RelayStates":      func() error { _, err := s.RelayStates(r.ctx); return err },
		"InboxStates":      func() error { _, err := s.InboxStates(r.ctx, "m1", ""); return err },
		"InboxSize":        func() error { _, err := s.InboxSize(r.ctx); return err },
		"ReadProgress":     func() error { _, _, err := s.ReadProgress(r.ctx, inbox.Partition{Group: "g"}); return err },
		"Sagas":            func() error { _, err := s.Sagas(r.ctx, saga.Filter{}); return err },
		"SagaLog":          func() error { _, err := s.SagaLog(r.ctx, saga.ID{}, 0, 10); return err },
		"SagaCounts":       func() error { _, err := s.SagaCounts(r.ctx); return err },
		"Schedules":        func() error { _, err := s.Schedules(r.ctx, "", 10); return err },
		"Messages":         func() error { _, err := s.ScheduledMessages(r.ctx, nil, 10); return err },
		"ScheduleStats":    func() error { _, err := s.ScheduleStats(r.ctx); return err },
		"ReadLease":        func() error { _, err := s.ReadLease(r.ctx, "k"); return err },
		"SchemaVersion":    func() error { _, err := s.SchemaVersion(r.ctx); return err },
		"the view":         func() error { return s.exec("SELECT * FROM " + s.table("messages")) },
	} {
		if err := read(); err != nil {
			r.Errorf("%s as a reader: %v", name, err)
		}
	}
}

// keep removes what is past its retention, as relay and as consumer.
func (r *mysqlRoles) keep() {
	for _, s := range []*mysqlStore{r.relay, r.consumer} {
		for _, kind := range []janitor.Kind{janitor.Inbox, janitor.Attempts, janitor.Leases, janitor.Letters, janitor.Sagas, janitor.Audit, janitor.Responses} {
			rows := janitor.Rows{Kind: kind, OlderThan: time.Hour}
			_, err := s.CountExpired(r.ctx, rows)
			must(r.T, err)
			_, err = s.PurgeExpired(r.ctx, rows, 10)
			must(r.T, err)
		}
		must(r.T, s.FoldDeadLetters(r.ctx))
	}
	must(r.T, r.relay.LeaveLanes(r.ctx, "n1"))
}

// TestMySQLStore_RolesRefuse holds that the roles have no right to do other jobs.
func TestMySQLStore_RolesRefuse(t *testing.T) {
	t.Parallel()
	r := newMySQLRoles(t)
	for _, tc := range []struct {
		s    *mysqlStore
		stmt string // {x} is a table
	}{
		{r.writer, "SELECT payload FROM {outbox}"},
		{r.writer, "SELECT id FROM {outbox_archive}"},
		{r.writer, "SELECT id FROM {dead_letters}"},
		{r.writer, "UPDATE {outbox_waiting} SET topic = 'a'"},
		{r.writer, "DELETE FROM {outbox}"},
		{r.writer, "UPDATE {outbox} SET topic = 'a'"},
		{r.writer, "UPDATE {outbox_ids} SET id = 'a'"},
		{r.writer, "INSERT INTO {outbox} (topic, position) VALUES ('a', 1)"},
		{r.writer, "SELECT payload FROM {scheduled}"},
		{r.writer, "UPDATE {scheduled} SET topic = 'a'"},
		{r.writer, "INSERT INTO {scheduled} (position) VALUES (1)"},
		{r.writer, "SELECT plan FROM {schedules}"},
		{r.scheduler, "SELECT payload FROM {scheduled}"},
		{r.scheduler, "INSERT INTO {outbox} (topic) VALUES ('a')"},
		{r.relay, "UPDATE {dead_letters} SET payload = 'a'"},
		{r.consumer, "UPDATE {dead_letters} SET payload = 'a'"},
		{r.consumer, "UPDATE {audit_log} SET actor = 'a'"},
		{r.consumer, "SELECT response FROM {idempotency_responses}"},
		{r.consumer, "INSERT INTO {idempotency_responses} (expires_at) VALUES (1)"},
		{r.relay, "UPDATE {idempotency_responses} SET response = 'a'"},
		{r.reader, "SELECT response FROM {idempotency_responses}"},
		{r.api, "DELETE FROM {idempotency_responses}"},
		{r.api, "SELECT message_key FROM {inbox}"},
		{r.api, "INSERT INTO {outbox} (topic) VALUES ('a')"},
		{r.operator, "UPDATE {dead_letters} SET payload = 'a'"},
		{r.writer, "DELETE FROM {outbox_ids}"},
		{r.writer, "INSERT INTO {outbox_waiting} (id) VALUES ('a')"},
		{r.relay, "INSERT INTO {inbox} (message_key) VALUES ('a')"},
		{r.relay, "UPDATE {outbox} SET topic = 'a'"},
		{r.relay, "INSERT INTO {replays} (plan) VALUES ('{}')"},
		{r.relay, "UPDATE {audit_log} SET actor = 'a'"},
		{r.consumer, "SELECT id FROM {outbox}"},
		{r.consumer, "INSERT INTO {outbox} (topic) VALUES ('a')"},
		{r.consumer, "UPDATE {relay_lanes} SET owner = 'a'"},
		{r.inbox, "SELECT message_key FROM {inbox}"},
		{r.inbox, "INSERT INTO {inbox} (message_key) VALUES ('a')"},
		{r.inbox, "UPDATE {inbox} SET dead = 1"},
		{r.inbox, "DELETE FROM {inbox}"},
		{r.inbox, "INSERT INTO {outbox} (topic) VALUES ('a')"},
		{r.writer, "CALL {inbox_record}('c', 'i', 't', NULL, NULL, NULL, NULL)"},
		{r.reader, "CALL {inbox_record}('c', 'i', 't', NULL, NULL, NULL, NULL)"},
		{r.operator, "DELETE FROM {audit_log}"},
		{r.operator, "UPDATE {audit_log} SET actor = 'a'"},
		{r.operator, "UPDATE {outbox} SET topic = 'a'"},
		{r.operator, "UPDATE {relay_lanes} SET owner = 'a'"},
		{r.operator, "INSERT INTO {outbox} (topic) VALUES ('a')"},
		{r.operator, "INSERT INTO {sagas} (saga) VALUES ('a')"},
		{r.operator, "DELETE FROM {sagas}"},
		{r.operator, "DELETE FROM {saga_log}"},
		{r.consumer, "UPDATE {saga_log} SET note = 'a'"},
		{r.relay, "INSERT INTO {sagas} (saga) VALUES ('a')"},
		{r.reader, "UPDATE {sagas} SET state = 'a'"},
		{r.operator, "DELETE FROM {inbox}"},
		{r.operator, "INSERT INTO {schedules} (name) VALUES ('a')"},
		{r.reader, "INSERT INTO {outbox} (topic) VALUES ('a')"},
		{r.reader, "UPDATE {dead_letters} SET state = 'discarded'"},
		{r.reader, "DELETE FROM {dead_letters}"},
		{r.reader, "INSERT INTO {audit_log} (actor) VALUES ('a')"},
		{r.reader, "UPDATE {settings} SET clock_offset_us = 1"},
		{r.consumer, "UPDATE {settings} SET clock_offset_us = 1"},
		{r.relay, "CREATE TABLE {other} (a INT)"},
		{r.relay, "DROP TABLE {outbox}"},
	} {
		before, after, _ := strings.Cut(tc.stmt, "{")
		table, rest, _ := strings.Cut(after, "}")
		stmt := before + tc.s.table(table) + rest
		err := tc.s.exec(stmt)
		var refused *mysql.MySQLError
		if !errors.As(err, &refused) || refused.Number != 1142 && refused.Number != 1143 && refused.Number != 1370 {
			t.Errorf("%s: %v, want that it is denied", stmt, err)
		}
	}
}
