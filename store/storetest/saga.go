package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/saga"
)

func sagaTests[Tx any]() []test[Tx] {
	needs := []need{keepsSagas}
	return []test[Tx]{
		{"started and changed", sagaChanged[Tx], needs},
		{"rolled back", sagaRolledBack[Tx], needs},
		{"unknown", sagaUnknown[Tx], needs},
		{"another version", sagaOtherVersion[Tx], needs},
		{"one for each key", sagaKeys[Tx], needs},
		{"two start it at once", sagaStartedAtOnce[Tx], needs},
		{"two start it at once, and the first rolls back", sagaStartRolledBack[Tx], needs},
		{"several change it at once", sagaChangedAtOnce[Tx], needs},
		{"locked while it is changed", sagaLocked[Tx], needs},
		{"ended", sagaEnded[Tx], needs},
		{"data byte for byte", sagaData[Tx], needs},
		{"the longest texts", sagaLimits[Tx], needs},
		{"log in order, by page", sagaLog[Tx], needs},
		{"after a restart", sagaRestart[Tx], []need{keepsSagas, persists}},
	}
}

func (e *env[Tx]) sagas() saga.Store[Tx]            { return e.s.(saga.Store[Tx]) }
func (e *env[Tx]) sagaOperator() saga.OperatorStore { return e.s.(saga.OperatorStore) }

func sagaID(key string) saga.ID {
	return saga.ID{Tenant: waybill.DefaultTenant, Saga: "order", Key: key}
}

// newSaga is an instance that is not stored yet.
func newSaga(key string) saga.Instance {
	return saga.Instance{
		ID: sagaID(key), Definition: 2, Status: saga.Running, State: "reserving", Data: json.RawMessage(`{"total":12}`),
		Progress: saga.Progress{
			Topic: "orders", Done: 1, Turn: 3, Timeouts: map[string]string{"payment": "t1"},
			Scheduled: map[string]time.Time{"reminder": time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC)},
		},
	}
}

// entryOf is an entry about a change of an instance.
func entryOf(in *saga.Instance, note string) saga.Entry {
	return saga.Entry{
		MessageID: "m-" + note, MessageType: "order.created", From: "", To: in.State, Status: in.Status, Definition: in.Definition,
		Node: "node-1", Note: note,
	}
}

// write stores an instance in a transaction of the test's and expects an answer.
func (e *env[Tx]) write(in *saga.Instance, note string, want bool) {
	e.Helper()
	got := e.ask(func(tx Tx) (bool, error) { return e.sagas().WriteSaga(e.ctx, tx, in, entryOf(in, note)) })
	if got != want {
		e.Fatalf("WriteSaga(%s, version %d) = %v, want %v", in.Key, in.Version, got, want)
	}
}

// started stores a new instance.
func (e *env[Tx]) started(in saga.Instance) saga.Instance {
	e.Helper()
	e.write(&in, "started", true)
	return in
}

func (e *env[Tx]) saga(id saga.ID) saga.Instance {
	e.Helper()
	in, err := e.sagaOperator().Saga(e.ctx, id)
	e.must(err, "Saga")
	return in
}

func (e *env[Tx]) wantNoSaga(id saga.ID) {
	e.Helper()
	if in, err := e.sagaOperator().Saga(e.ctx, id); !errors.Is(err, waybill.ErrNotFound) {
		e.Errorf("Saga(%v) = %+v, %v, want ErrNotFound", id, in, err)
	}
	if log := e.log(id); len(log) > 0 {
		e.Errorf("the log has %d entries, want none", len(log))
	}
}

func (e *env[Tx]) log(id saga.ID) []saga.Entry {
	e.Helper()
	list, err := e.sagaOperator().SagaLog(e.ctx, id, 0, allRows)
	e.must(err, "SagaLog")
	if list == nil {
		e.Fatal("SagaLog() = nil, want a slice")
	}
	return list
}

// wantSame checks that the store has what the caller has.
func (e *env[Tx]) wantSame(want saga.Instance) {
	e.Helper()
	if got := e.saga(want.ID); !reflect.DeepEqual(got, want) {
		e.Errorf("Saga() = %+v, want %+v", got, want)
	}
}

// wantLog checks the notes of an instance's log, and that its versions rise by one.
func (e *env[Tx]) wantLog(id saga.ID, notes ...string) {
	e.Helper()
	list := e.log(id)
	if len(list) != len(notes) {
		e.Fatalf("the log has %d entries, want %d", len(list), len(notes))
	}
	for i, entry := range list {
		if entry.Version != int64(i+1) || entry.Note != notes[i] {
			e.Errorf("entry %d has the version %d and the note %q, want %d and %q", i, entry.Version, entry.Note, i+1, notes[i])
		}
	}
}

func sagaChanged[Tx any](e *env[Tx]) {
	in := newSaga("o1")
	in.Number, in.StartedAt, in.EndedAt = 77, time.Unix(1, 0), time.Unix(2, 0) // are the store's
	e.write(&in, "started", true)
	if in.Number <= 0 || in.Number == 77 || in.Version != 1 || !in.ChangedAt.Equal(in.StartedAt) || !in.EndedAt.IsZero() {
		e.Errorf("instance = %+v, want number, version 1 and times of the store", in)
	}
	e.wantRecent("StartedAt", in.StartedAt, 0)
	e.wantSame(in)
	e.advance(time.Hour)
	before := in
	in.Definition, in.Status, in.State, in.Data, in.Error = 3, saga.Stuck, "paying", json.RawMessage(`[1]`), "no answer"
	in.Progress = saga.Progress{Back: true, Waiting: true}
	e.write(&in, "changed", true)
	if in.Number != before.Number || in.Version != 2 || !in.StartedAt.Equal(before.StartedAt) || !in.EndedAt.IsZero() {
		e.Errorf("instance = %+v, want number and start as before, version 2", in)
	}
	e.wantRecent("ChangedAt", in.ChangedAt, time.Hour)
	e.wantSame(in)
	list := e.log(in.ID)
	if len(list) != 2 {
		e.Fatalf("the log has %d entries, want 2", len(list))
	}
	want := entryOf(&in, "changed")
	want.Version, want.At = 2, in.ChangedAt
	if list[1] != want {
		e.Errorf("entry = %+v, want %+v", list[1], want)
	}
}

func sagaRolledBack[Tx any](e *env[Tx]) {
	in := newSaga("o1")
	tx := e.begin()
	ok, err := e.sagas().WriteSaga(e.ctx, tx, &in, entryOf(&in, "started"))
	if !ok || err != nil {
		e.Errorf("WriteSaga() = %v, %v, want true", ok, err)
	}
	if got, err := e.sagas().ReadSaga(e.ctx, tx, in.ID, false); err != nil || got.Version != 1 {
		e.Errorf("ReadSaga() in the transaction = %+v, %v, want version 1", got, err)
	}
	e.rollback(tx)
	e.wantNoSaga(in.ID)
	stored := e.started(newSaga("o1"))
	changed := stored
	changed.State = "paying"
	tx = e.begin()
	if ok, err := e.sagas().WriteSaga(e.ctx, tx, &changed, entryOf(&changed, "changed")); !ok || err != nil {
		e.Errorf("WriteSaga() = %v, %v, want true", ok, err)
	}
	e.rollback(tx)
	e.wantSame(stored)
	e.wantLog(stored.ID, "started")
}

func sagaUnknown[Tx any](e *env[Tx]) {
	e.started(newSaga("o1"))
	for _, id := range []saga.ID{{}, sagaID("o2"), {Tenant: "acme", Saga: "order", Key: "o1"}, {Tenant: waybill.DefaultTenant, Saga: "Order", Key: "o1"}} {
		e.wantNoSaga(id)
		e.tx(func(tx Tx) error {
			for _, lock := range []bool{false, true} {
				if _, err := e.sagas().ReadSaga(e.ctx, tx, id, lock); !errors.Is(err, waybill.ErrNotFound) {
					e.Errorf("ReadSaga(%v) = %v, want ErrNotFound", id, err)
				}
			}
			return nil
		})
	}
}

// sagaOtherVersion also checks whether the transaction can continue after the answer.
func sagaOtherVersion[Tx any](e *env[Tx]) {
	first := e.started(newSaga("o1"))
	second := first
	e.write(&second, "changed", true)
	e.tx(func(tx Tx) error {
		unknown := newSaga("o2")
		unknown.Number, unknown.Version = 1<<40, 1
		later := second
		later.Version++
		for _, in := range []saga.Instance{first, newSaga("o1"), unknown, later} {
			before := in
			ok, err := e.sagas().WriteSaga(e.ctx, tx, &in, entryOf(&in, "too late"))
			if ok || err != nil || !reflect.DeepEqual(in, before) {
				e.Errorf("WriteSaga(%s, version %d) = %v, %v, want false, and the instance as it was", in.Key, in.Version, ok, err)
			}
		}
		return e.h.Effect(e.ctx, e.s, tx, "still usable")
	})
	e.wantEffects("still usable", 1)
	e.wantSame(second)
	e.wantLog(first.ID, "started", "changed")
	e.wantNoSaga(sagaID("o2"))
}

// sagaKeys starts instances that differ in one part of the id, or only in the border between two
// parts.
func sagaKeys[Tx any](e *env[Tx]) {
	all := []saga.ID{
		{Tenant: "a", Saga: "b", Key: "c"}, {Tenant: "a2", Saga: "b", Key: "c"}, {Tenant: "a", Saga: "b2", Key: "c"}, {Tenant: "a", Saga: "b", Key: "c2"},
		{Tenant: "ab", Saga: "b", Key: "c"}, {Tenant: "a", Saga: "bb", Key: "c"}, {Tenant: "A", Saga: "b", Key: "c"}, {Tenant: "a", Saga: "B", Key: "c"},
		{Tenant: "a", Saga: "b", Key: "C"}, {Tenant: "a", Saga: "b", Key: "c "}, {Tenant: "a", Saga: "b", Key: "ç"}, {Tenant: "a", Saga: "b", Key: "x' OR 1=1 -- \\"},
	}
	last := int64(0)
	for _, id := range all {
		in := newSaga("")
		in.ID = id
		in = e.started(in)
		if in.Number <= last {
			e.Errorf("number = %d after %d, want them to rise", in.Number, last)
		}
		last = in.Number
		again := newSaga("")
		again.ID = id
		e.write(&again, "again", false)
	}
	for _, id := range all {
		if in := e.saga(id); in.ID != id || in.Version != 1 {
			e.Errorf("Saga(%v) = %+v, want version 1", id, in)
		}
	}
}

// rivalStart starts an instance in a transaction of the test's, and again in one of the store's
// meanwhile. It returns the answer to the second one once the first has ended.
func (e *env[Tx]) rivalStart(key string, end func(tx Tx)) bool {
	e.Helper()
	first, tx := newSaga(key), e.begin()
	ok, err := e.sagas().WriteSaga(e.ctx, tx, &first, entryOf(&first, "first"))
	e.must(err, "WriteSaga")
	if !ok {
		e.Fatal("WriteSaga() = false, want true")
	}
	begun, done := make(chan struct{}), make(chan error, 1)
	var second bool
	go func() {
		close(begun)
		done <- repeatConflicts(func() error {
			in := newSaga(key)
			return e.inTransaction(func(ctx context.Context, tx Tx) (err error) {
				second, err = e.sagas().WriteSaga(ctx, tx, &in, entryOf(&in, "second"))
				return err
			})
		})
	}()
	<-begun
	select {
	case err := <-done:
		e.Errorf("the second start received %v, %v before the first had ended", second, err)
		done <- err
	case <-e.soon():
	}
	end(tx)
	e.must(<-done, "the second start")
	return second
}

// inTransaction runs fn in a transaction of the store.
func (e *env[Tx]) inTransaction(fn func(ctx context.Context, tx Tx) error) error {
	_, err := e.s.Transact(e.ctx, func(ctx context.Context, tx Tx) (outbox.Batch, error) { return outbox.Batch{}, fn(ctx, tx) })
	return err
}

func sagaStartedAtOnce[Tx any](e *env[Tx]) {
	if e.rivalStart("o1", e.commit) {
		e.Error("the second start = true, want false: the first has committed")
	}
	e.wantLog(sagaID("o1"), "first")
}

func sagaStartRolledBack[Tx any](e *env[Tx]) {
	if !e.rivalStart("o1", e.rollback) {
		e.Error("the second start = false, want true: the first has rolled back")
	}
	e.wantLog(sagaID("o1"), "second")
}

// bump reads an instance and changes it, and reports whether that was the version stored.
func (e *env[Tx]) bump(id saga.ID, lock bool) (changed bool, err error) {
	err = repeatConflicts(func() error {
		return e.inTransaction(func(ctx context.Context, tx Tx) error {
			in, err := e.sagas().ReadSaga(ctx, tx, id, lock)
			if err == nil {
				changed, err = e.sagas().WriteSaga(ctx, tx, &in, entryOf(&in, "bump"))
			}
			return err
		})
	})
	return changed, err
}

func sagaChangedAtOnce[Tx any](e *env[Tx]) {
	in := e.started(newSaga("o1"))
	var changes atomic.Int64
	e.concurrently(4, func(int) error {
		for range 10 {
			changed, err := e.bump(in.ID, false)
			if err != nil {
				return err
			}
			if changed {
				changes.Add(1)
			}
		}
		return nil
	})
	if got := e.saga(in.ID); got.Version != 1+changes.Load() || changes.Load() == 0 {
		e.Errorf("version = %d after %d changes, want one more", got.Version, changes.Load())
	}
	if n := int64(len(e.log(in.ID))); n != 1+changes.Load() {
		e.Errorf("the log has %d entries after %d changes, want one more", n, changes.Load())
	}
}

// sagaLocked: a transaction that reads with a lock does not find at its end that another one was
// faster.
func sagaLocked[Tx any](e *env[Tx]) {
	const several, times = 4, 10
	in := e.started(newSaga("o1"))
	e.concurrently(several, func(int) error {
		for range times {
			changed, err := e.bump(in.ID, true)
			if err != nil {
				return err
			}
			if !changed {
				return errors.New("WriteSaga() = false after ReadSaga with a lock, want true")
			}
		}
		return nil
	})
	if got := e.saga(in.ID); got.Version != 1+several*times {
		e.Errorf("version = %d, want %d", got.Version, 1+several*times)
	}
}

func sagaEnded[Tx any](e *env[Tx]) {
	for _, status := range saga.Statuses {
		in := e.started(newSaga(string(status)))
		e.advance(time.Minute)
		in.Status = status
		e.write(&in, "changed", true)
		if status.Ended() != in.EndedAt.Equal(in.ChangedAt) || in.EndedAt.IsZero() == status.Ended() {
			e.Errorf("%s: EndedAt = %v, ChangedAt = %v", status, in.EndedAt, in.ChangedAt)
		}
		e.wantSame(in)
	}
	at := newSaga("at once")
	at.Status = saga.Completed
	if at = e.started(at); !at.EndedAt.Equal(at.StartedAt) {
		e.Errorf("EndedAt = %v of one that has ended when it starts, want %v", at.EndedAt, at.StartedAt)
	}
	e.wantSame(at)
	again := newSaga("at once")
	e.write(&again, "again", false)
}

func sagaData[Tx any](e *env[Tx]) {
	for key, data := range map[string]string{
		"spaces":     "{ \"b\" : 1,\n\t\"a\":2 ,\"a\": 3}",
		"characters": `{"t":"naïve é 😀 \u0000 \ud83d\ude00 ' \" \\ \/ % _ ? $1 {sagas}"}`,
		"numbers":    `[1e400, 0.10, 123456789012345678901234567890, -0]`,
		"null":       `null`,
		"long":       `{"t":"` + strings.Repeat("0123456789abcdef", 1<<14) + `"}`,
		"none":       "",
	} {
		in := newSaga(key)
		if in.Data = nil; data != "" {
			in.Data = json.RawMessage(data)
		}
		in = e.started(in)
		for range 2 {
			if got := e.saga(in.ID).Data; !bytes.Equal(got, in.Data) || (got == nil) != (data == "") {
				e.Errorf("%s: data = %.200q, want %.200q", key, got, data)
			}
			e.write(&in, "again", true)
		}
	}
}

func sagaLimits[Tx any](e *env[Tx]) {
	long := func(n int) string { return strings.Repeat("\U0001F69A", n/4) + strings.Repeat("x", n%4) }
	in := newSaga("")
	in.ID = saga.ID{Tenant: strings.Repeat("t", waybill.MaxTenantLen), Saga: long(waybill.MaxConsumerLen), Key: long(waybill.MaxKeyLen)}
	in.State, in.Error, in.Definition = long(waybill.MaxConsumerLen), long(observe.MaxErrorLen), 1<<31-1
	in.Progress.Topic, in.Progress.Turn = long(waybill.MaxTopicLen), 1<<62
	in.Progress.Timeouts = map[string]string{long(waybill.MaxConsumerLen): long(waybill.MaxIDLen)}
	want := saga.Entry{
		MessageID: long(waybill.MaxIDLen), MessageType: long(waybill.MaxTypeLen), From: in.State, To: in.State, Status: in.Status,
		Definition: in.Definition, Node: long(waybill.MaxIDLen), Note: long(observe.MaxErrorLen),
	}
	e.tx(func(tx Tx) error {
		ok, err := e.sagas().WriteSaga(e.ctx, tx, &in, want)
		if !ok && err == nil {
			e.Error("WriteSaga() = false, want true")
		}
		return err
	})
	e.wantSame(in)
	want.Version, want.At = 1, in.StartedAt
	if list := e.log(in.ID); len(list) != 1 || list[0] != want {
		e.Errorf("log = %+v, want %+v", list, want)
	}
}

func sagaLog[Tx any](e *env[Tx]) {
	in := e.started(newSaga("o1"))
	for range 4 {
		e.write(&in, "changed", true)
		other := newSaga("o" + strings.Repeat("2", int(in.Version)))
		e.started(other)
	}
	e.wantLog(in.ID, "started", "changed", "changed", "changed", "changed")
	for _, tc := range []struct {
		after int64
		limit int
		want  []int64
	}{
		{0, 2, []int64{1, 2}}, {2, 2, []int64{3, 4}}, {4, 2, []int64{5}}, {5, 2, []int64{}}, {3, 100, []int64{4, 5}},
	} {
		list, err := e.sagaOperator().SagaLog(e.ctx, in.ID, tc.after, tc.limit)
		e.must(err, "SagaLog")
		got := []int64{}
		for _, entry := range list {
			got = append(got, entry.Version)
		}
		if !reflect.DeepEqual(got, tc.want) {
			e.Errorf("SagaLog(after %d, limit %d) has the versions %v, want %v", tc.after, tc.limit, got, tc.want)
		}
	}
}

func sagaRestart[Tx any](e *env[Tx]) {
	in := e.started(newSaga("o1"))
	e.reopen()
	e.wantSame(in)
	e.write(&in, "changed", true)
	e.wantLog(in.ID, "started", "changed")
}
