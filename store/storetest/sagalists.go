package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/saga"
)

func sagaListTests[Tx any]() []test[Tx] {
	needs := []need{keepsSagas}
	return []test[Tx]{
		{"none", sagasNone[Tx], needs},
		{"filters", sagasFiltered[Tx], needs},
		{"latest first, by page", sagasPaged[Tx], needs},
		{"as they are, without data", sagasFields[Tx], needs},
		{"counts", sagasCounted[Tx], needs},
		{"removed after the retention", sagasRemoved[Tx], needs},
		{"removed in batches, with their logs", sagasRemovedInBatches[Tx], needs},
	}
}

func (e *env[Tx]) listed(f saga.Filter) []saga.Instance {
	e.Helper()
	list, err := e.sagaOperator().Sagas(e.ctx, f)
	e.must(err, "Sagas")
	if list == nil {
		e.Fatal("Sagas() = nil, want a slice")
	}
	return list
}

// wantListed checks the keys of a list.
func (e *env[Tx]) wantListed(f saga.Filter, want ...string) {
	e.Helper()
	got := []string{}
	for _, in := range e.listed(f) {
		got = append(got, in.Key)
	}
	if !slices.Equal(got, want) {
		e.Errorf("Sagas(%+v) = %v, want %v", f, got, want)
	}
}

func sagasNone[Tx any](e *env[Tx]) {
	e.wantListed(saga.Filter{})
	counts, err := e.sagaOperator().SagaCounts(e.ctx)
	if err != nil || counts == nil || len(counts) > 0 {
		e.Errorf("SagaCounts() = %v, %v, want an empty slice", counts, err)
	}
}

func sagasFiltered[Tx any](e *env[Tx]) {
	for _, one := range []struct {
		id     saga.ID
		status saga.Status
	}{
		{saga.ID{Tenant: "north", Saga: "order", Key: "o1"}, saga.Running},
		{saga.ID{Tenant: "north", Saga: "order", Key: "o2"}, saga.Stuck},
		{saga.ID{Tenant: "south", Saga: "order", Key: "o3"}, saga.Running},
		{saga.ID{Tenant: "north", Saga: "refund", Key: "o1"}, saga.Completed},
		{saga.ID{Tenant: "south", Saga: "refund", Key: "o4"}, saga.Compensating},
		{saga.ID{Tenant: "south", Saga: "refund", Key: "o5"}, saga.Compensated},
	} {
		in := newSaga("")
		in.ID, in.Status = one.id, one.status
		e.started(in)
	}
	e.wantListed(saga.Filter{}, "o5", "o4", "o1", "o3", "o2", "o1")
	e.wantListed(saga.Filter{Tenant: "north"}, "o1", "o2", "o1")
	e.wantListed(saga.Filter{Saga: "order"}, "o3", "o2", "o1")
	e.wantListed(saga.Filter{Key: "o1"}, "o1", "o1")
	e.wantListed(saga.Filter{Key: "o1", Saga: "refund"}, "o1")
	e.wantListed(saga.Filter{Status: saga.Running}, "o3", "o1")
	e.wantListed(saga.Filter{Status: saga.Stuck}, "o2")
	e.wantListed(saga.Filter{Status: saga.Completed, Saga: "refund"}, "o1")
	e.wantListed(saga.Filter{Status: saga.Completed, Saga: "order"})
	e.wantListed(saga.Filter{Saga: "refund", Tenant: "south"}, "o5", "o4")
	e.wantListed(saga.Filter{Tenant: "north", Saga: "order", Key: "o2", Status: saga.Stuck}, "o2")
	e.wantListed(saga.Filter{Tenant: "x' OR 1=1 --"})
}

func sagasPaged[Tx any](e *env[Tx]) {
	const all = 105
	var want []string
	for i := range all {
		in := newSaga(fmt.Sprintf("o%d", i))
		if i%5 == 0 {
			in.Status = saga.Stuck
		}
		e.started(in)
		want = append(want, in.Key)
	}
	slices.Reverse(want)
	e.wantListed(saga.Filter{}, want[:100]...)
	e.wantListed(saga.Filter{Limit: 3}, want[:3]...)
	for _, f := range []saga.Filter{{Limit: 40}, {Limit: 40, Saga: "order"}, {Limit: 7, Status: saga.Stuck}, {Limit: 21, Status: saga.Stuck, Saga: "order"}} {
		var got []string
		for {
			page := e.listed(f)
			for _, in := range page {
				got = append(got, in.Key)
			}
			if len(page) < f.Limit {
				break
			}
			f.Before = page[len(page)-1].Number
		}
		expected := all
		if f.Status != "" {
			expected = all / 5
		}
		if len(got) != expected || f.Status == "" && !slices.Equal(got, want) {
			e.Errorf("pages of %+v = %v, want %d", f, got, expected)
		}
	}
}

func sagasFields[Tx any](e *env[Tx]) {
	in := e.started(newSaga("o1"))
	in.Status, in.Error = saga.Compensated, "no stock"
	e.write(&in, "changed", true)
	in.Data, in.Progress = nil, saga.Progress{}
	if list := e.listed(saga.Filter{}); len(list) != 1 || !reflect.DeepEqual(list[0], in) {
		e.Errorf("Sagas() = %+v, want %+v", list, in)
	}
}

func sagasCounted[Tx any](e *env[Tx]) {
	for i, status := range []saga.Status{saga.Running, saga.Stuck, saga.Completed, saga.Running, saga.Completed, saga.Compensated} {
		in := newSaga(fmt.Sprintf("o%d", i))
		in.Status = status
		e.started(in)
		e.advance(time.Hour)
	}
	refund := newSaga("r1")
	refund.Saga = "a-refund"
	refund = e.started(refund)
	e.advance(time.Hour)
	e.write(&refund, "changed", true) // and so is not idle
	counts, err := e.sagaOperator().SagaCounts(e.ctx)
	e.must(err, "SagaCounts")
	want := []saga.Count{
		{Saga: "a-refund", Status: saga.Running, Count: 1},
		{Saga: "order", Status: saga.Compensated, Count: 1},
		{Saga: "order", Status: saga.Completed, Count: 2},
		{Saga: "order", Status: saga.Running, Count: 2, Idle: 7 * time.Hour},
		{Saga: "order", Status: saga.Stuck, Count: 1, Idle: 6 * time.Hour},
	}
	if len(counts) != len(want) {
		e.Fatalf("SagaCounts() = %+v, want %+v", counts, want)
	}
	for i, w := range want {
		got := counts[i]
		idle := got.Idle - w.Idle
		if got.Idle = w.Idle; got != w || idle.Abs() > time.Minute || w.Status.Ended() && idle != 0 {
			e.Errorf("count = %+v, idle %v more; want %+v", got, idle, w)
		}
	}
}

func sagasRemoved[Tx any](e *env[Tx]) {
	for _, status := range saga.Statuses {
		in := newSaga(string(status))
		in.Status = status
		e.started(in)
	}
	late := e.started(newSaga("late"))
	e.advance(week - minute)
	late.Status = saga.Completed
	e.write(&late, "changed", true)
	e.purgeOld(janitor.Sagas, 0)
	e.advance(2 * minute)
	again := newSaga(string(saga.Completed))
	e.write(&again, "again", false) // it is kept for the length of its retention
	e.purge(janitor.Rows{Kind: janitor.Sagas, OlderThan: week, Tenant: "other"}, 0)
	e.purgeOld(janitor.Sagas, 2)
	e.wantNoSaga(sagaID(string(saga.Completed)))
	e.wantNoSaga(sagaID(string(saga.Compensated)))
	e.wantListed(saga.Filter{}, "late", string(saga.Stuck), string(saga.Compensating), string(saga.Running))
	e.wantLog(late.ID, "started", "changed")
	e.wantLog(sagaID(string(saga.Stuck)), "started")
	later := e.started(newSaga(string(saga.Completed)))
	e.wantLog(later.ID, "started")
	if later.Number <= late.Number {
		e.Errorf("number = %d after %d, want one that nobody had", later.Number, late.Number)
	}
}

func sagasRemovedInBatches[Tx any](e *env[Tx]) {
	for i := range 7 {
		in := e.started(newSaga(fmt.Sprintf("o%d", i)))
		for range i {
			e.write(&in, "changed", true)
		}
		in.Status = saga.Completed
		e.write(&in, "ended", true)
	}
	e.advance(week + minute)
	var n int64
	e.must(repeatConflicts(func() (err error) {
		n, err = e.s.PurgeExpired(e.ctx, janitor.Rows{Kind: janitor.Sagas, OlderThan: week}, 3)
		return err
	}), "PurgeExpired")
	if left := len(e.listed(saga.Filter{})); n != 3 || left != 4 {
		e.Errorf("PurgeExpired() = %d, and %d are left, want 3 and 4", n, left)
	}
	e.purgeOld(janitor.Sagas, 4)
	e.wantListed(saga.Filter{})
	for i := range 7 {
		e.wantNoSaga(sagaID(fmt.Sprintf("o%d", i)))
	}
}
