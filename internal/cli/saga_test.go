package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/store/memstore"
)

// change stores a change of an instance, and lets a minute pass.
func (m *memory) change(t *testing.T, in *saga.Instance, e saga.Entry) {
	t.Helper()
	e.Status, e.Definition, e.To = in.Status, in.Definition, in.State
	_, err := m.Transact(t.Context(), func(ctx context.Context, tx *memstore.Tx) (outbox.Batch, error) {
		stored, err := m.WriteSaga(ctx, tx, in, e)
		if err == nil && !stored {
			t.Error("the instance has another version")
		}
		return outbox.Batch{}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	m.later(time.Minute)
}

// begin stores a new instance of the saga of orders.
func (m *memory) begin(t *testing.T, tenant, key string, pr saga.Progress) *saga.Instance {
	t.Helper()
	in := &saga.Instance{
		ID: saga.ID{Tenant: tenant, Saga: "order", Key: key}, Definition: 1, Status: saga.Running, State: "placed",
		Data: json.RawMessage(`{"card":"4000-1234","sum":12.5}`), Progress: pr,
	}
	m.change(t, in, saga.Entry{MessageID: "placed-" + key, MessageType: "order.placed", Node: "shop-1"})
	return in
}

// sagas leaves instances from the hour before the night: one that is stuck, one that waits
// for an answer, one that has ended, and one without steps.
func (m *memory) sagas(t *testing.T) {
	t.Helper()
	now := m.now
	m.now = night.Add(-time.Hour)
	stuck := m.begin(t, waybill.DefaultTenant, "17", saga.Progress{Topic: "orders", Turn: 1})
	stuck.State, stuck.Progress.Done, stuck.Progress.Turn = "reserve", 1, 2
	m.change(t, stuck, saga.Entry{MessageID: "step-1", MessageType: "waybill.saga.step", From: "placed", Node: "shop-1", Note: "step reserve"})
	stuck.Status, stuck.State, stuck.Error, stuck.Progress.Back, stuck.Progress.Turn = saga.Compensating, "pay", "card declined", true, 3
	m.change(t, stuck, saga.Entry{MessageID: "step-2", MessageType: "waybill.saga.step", From: "reserve", Node: "shop-2", Note: "step pay failed"})
	stuck.Status, stuck.State, stuck.Error = saga.Stuck, "reserve undone", "warehouse: 502 Bad Gateway"
	m.change(t, stuck, saga.Entry{MessageID: "step-3", MessageType: "waybill.saga.step", From: "pay", Node: "shop-1", Note: "step reserve could not be undone"})
	m.begin(t, waybill.DefaultTenant, "18", saga.Progress{Topic: "orders", Waiting: true, Turn: 1, Timeouts: map[string]string{"no answer": "t1"}})
	done := m.begin(t, "acme", "3", saga.Progress{Topic: "orders", Turn: 1})
	done.Status, done.State, done.Progress.Done = saga.Completed, "pay", 2
	m.change(t, done, saga.Entry{MessageID: "paid-3", MessageType: "payment.taken", From: "placed", Node: "shop-1"})
	m.begin(t, waybill.DefaultTenant, "rules only", saga.Progress{Topic: "orders"})
	m.now = now
}

// A store without sagas is reported in one line.
func TestSaga_StoreWithout(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"list"}, {"show", "order", "17"}, {"resume", "order", "17"}, {"compensate", "order", "17"}} {
		var out bytes.Buffer
		p := &program{
			env: []string{"WAYBILL_STORE=mongodb://db/shop"}, stdout: &out, stderr: &out,
			open: func(context.Context, opener.StoreConfig) (opener.Store, error) {
				return struct{ opener.Store }{newMemory(t)}, nil
			},
		}
		code := p.run(t.Context(), append([]string{"saga"}, args...))
		want := "waybill: the store memory keeps no sagas; PostgreSQL, MariaDB, MySQL and SQLite do\n"
		if code != exitFailed || out.String() != want {
			t.Errorf("saga %q: exit code %d, %s", args, code, out.String())
		}
	}
}

// An instance that changes while somebody acts on it stays as it is.
func TestSaga_Overtaken(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	m.begin(t, waybill.DefaultTenant, "17", saga.Progress{Topic: "orders", Turn: 1})
	var out bytes.Buffer
	p := &program{
		env: []string{"WAYBILL_STORE=sqlite:shop.db"}, stdout: &out, stderr: &out,
		open: func(context.Context, opener.StoreConfig) (opener.Store, error) { return overtaking{m, t}, nil },
	}
	code := p.run(t.Context(), []string{"saga", "compensate", "order", "17"})
	want := "waybill: order 17 was not compensated: it was changed at the same time; look at it again: waybill saga show order 17\n"
	if code != exitFailed || out.String() != want {
		t.Errorf("exit code %d, %s", code, out.String())
	}
}

// overtaking lets a message change each instance after it was read.
type overtaking struct {
	*memory
	t *testing.T
}

func (o overtaking) Saga(ctx context.Context, id saga.ID) (saga.Instance, error) {
	in, err := o.memory.Saga(ctx, id)
	later := in
	o.change(o.t, &later, saga.Entry{MessageID: "quick"})
	return in, err
}
