package storetest

import (
	"errors"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/saga"
)

func sagaOperatorTests[Tx any]() []test[Tx] {
	needs := []need{keepsSagas}
	return []test[Tx]{
		{"changes an instance with message and audit", sagaActed[Tx], needs},
		{"another version", sagaActedLate[Tx], needs},
		{"by nobody", sagaActedByNobody[Tx], needs},
		{"a message id that is taken", sagaActedTwice[Tx], needs},
	}
}

// act makes an operator change an instance to compensating, and returns the answer.
func (e *env[Tx]) act(in saga.Instance, m waybill.Message, by string) (bool, error) {
	in.Status = saga.Compensating
	return e.sagaOperator().ChangeSaga(e.ctx, in, entryOf(&in, "acted"), &m, deadletter.Entry{
		Action: saga.ActResume, By: by, Why: strings.Repeat("w", observe.MaxErrorLen), MessageID: m.ID, Detail: in.Saga + " " + in.Key,
	})
}

func sagaActed[Tx any](e *env[Tx]) {
	in := newSaga(strings.Repeat("k", waybill.MaxKeyLen))
	in.Saga, in.Status = strings.Repeat("s", waybill.MaxConsumerLen), saga.Stuck
	in = e.started(in)
	m := msg("go", "k")
	if ok, err := e.act(in, m, "ann"); !ok || err != nil {
		e.Fatalf("ChangeSaga() = %v, %v, want true", ok, err)
	}
	got := e.saga(in.ID)
	if got.Version != 2 || got.Status != saga.Compensating || got.Number != in.Number {
		e.Errorf("instance = %+v, want version 2, compensating", got)
	}
	e.wantLog(in.ID, "started", "acted")
	e.want(inspect.Scheduled, "go")
	n := e.join("r1")
	e.release(1)
	n.settle(published(n.claimOne("go"))...)
	entries := e.audit(deadletter.AuditFilter{Action: saga.ActResume})
	if len(entries) != 1 {
		e.Fatalf("%d audit entries, want 1", len(entries))
	}
	entry := entries[0]
	e.wantRecent("At", entry.At, 0)
	if entry.By != "ann" || entry.MessageID != "go" || entry.Detail != in.Saga+" "+in.Key || len(entry.Why) != observe.MaxErrorLen {
		e.Errorf("entry = %+v, want who, why, which message and which instance", entry)
	}
}

// wantUntouched checks that an action has stored nothing.
func (e *env[Tx]) wantUntouched(in saga.Instance, notes ...string) {
	e.Helper()
	e.wantSame(in)
	e.wantLog(in.ID, notes...)
	e.wantNowhere("go")
	if entries := e.audit(deadletter.AuditFilter{}); len(entries) > 0 {
		e.Errorf("audit log = %+v, want nothing", entries)
	}
}

func sagaActedLate[Tx any](e *env[Tx]) {
	old := e.started(newSaga("o1"))
	in := old
	e.write(&in, "changed", true)
	if ok, err := e.act(old, msg("go", "k"), "ann"); ok || err != nil {
		e.Errorf("ChangeSaga() of another version = %v, %v, want false", ok, err)
	}
	e.wantUntouched(in, "started", "changed")
}

func sagaActedByNobody[Tx any](e *env[Tx]) {
	in := e.started(newSaga("o1"))
	ok, err := e.act(in, msg("go", "k"), " ")
	var invalid *waybill.InvalidError
	if ok || !errors.As(err, &invalid) || invalid.Field != "by" {
		e.Errorf("ChangeSaga() by nobody = %v, %v, want an error that names by", ok, err)
	}
	e.wantUntouched(in, "started")
}

func sagaActedTwice[Tx any](e *env[Tx]) {
	in := e.started(newSaga("o1"))
	e.later("go", time.Hour)
	if ok, err := e.act(in, msg("go", "k"), "ann"); ok || !waybill.IsConflict(err) {
		e.Errorf("ChangeSaga() with an id that is scheduled = %v, %v, want a conflict", ok, err)
	}
	e.wantSame(in)
	e.wantLog(in.ID, "started")
}
