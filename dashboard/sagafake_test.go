package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/saga"
)

// Sagas lists the latest first, and notes what was asked for.
func (f *fake) Sagas(_ context.Context, filter saga.Filter) ([]saga.Instance, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sagaFilter = filter
	list := []saga.Instance{}
	for _, in := range slices.Backward(f.instances) {
		matches := (filter.Status == "" || in.Status == filter.Status) && (filter.Before == 0 || in.Number < filter.Before)
		if matches && len(list) < filter.Limit {
			in.Data, in.Progress = nil, saga.Progress{}
			list = append(list, in)
		}
	}
	return list, f.fail
}

func (f *fake) Saga(_ context.Context, id saga.ID) (saga.Instance, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, in := range f.instances {
		if in.ID == id {
			return in, f.fail
		}
	}
	if f.fail != nil {
		return saga.Instance{}, f.fail
	}
	return saga.Instance{}, waybill.ErrNotFound
}

func (f *fake) SagaLog(_ context.Context, _ saga.ID, after int64, limit int) ([]saga.Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rest := f.sagaLog[min(int(after), len(f.sagaLog)):]
	return rest[:min(limit, len(rest))], f.fail
}

func (f *fake) SagaCounts(context.Context) ([]saga.Count, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sagaCounted++
	var counts []saga.Count
	for _, in := range f.instances {
		counts = append(counts, saga.Count{Saga: in.Saga, Status: in.Status, Count: 1, Idle: time.Hour})
	}
	return counts, f.fail
}

func (f *fake) ChangeSaga(_ context.Context, in saga.Instance, _ saga.Entry, _ *waybill.Message, a deadletter.Entry) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.overtaken {
		return false, nil
	}
	f.changes = append(f.changes, fmt.Sprintf("%s %s by %s: %s", a.Action, in.Key, a.By, a.Why))
	return true, f.fail
}

// fillSagas adds an instance that is stuck, 17, one that runs, 18, and one that has ended.
func (f *fake) fillSagas() {
	now := time.Now()
	for i, status := range []saga.Status{saga.Stuck, saga.Running, saga.Completed} {
		f.instances = append(f.instances, saga.Instance{
			ID: saga.ID{Tenant: waybill.DefaultTenant, Saga: "order", Key: fmt.Sprint(17 + i)}, Number: int64(i + 1), Version: 3, Definition: 1,
			Status: status, State: "pay", Data: json.RawMessage(`{"secret-amount":1}`), Error: "card <declined>", StartedAt: now, ChangedAt: now,
			Progress: saga.Progress{Topic: "orders", Turn: 2, Done: 1, Timeouts: map[string]string{"no answer": "t1"}},
		})
	}
	f.sagaLog = []saga.Entry{
		{Version: 1, At: now, MessageID: "m1", MessageType: "order.placed", To: "placed", Status: saga.Running, Node: "shop-1"},
		{Version: 2, At: now, MessageID: "step-1", MessageType: "waybill.saga.step", From: "placed", To: "pay", Status: saga.Running, Note: "step <pay>"},
		{Version: 3, At: now, MessageID: "step-2", From: "pay", To: "pay", Status: saga.Stuck, Note: "step pay could not be undone"},
	}
}
