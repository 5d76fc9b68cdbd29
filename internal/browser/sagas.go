package browser

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/store/memstore"
)

// sagaChange is a line in the log of an instance on the stage, by what it has led to.
type sagaChange struct {
	status  saga.Status
	state   string
	message string // its type
	note    string
}

const sagaStep = "waybill.saga.step"

// declined is the way of an order whose payment was declined, up to where undoing it fails.
var declined = []sagaChange{
	{saga.Running, "placed", "order.placed", ""},
	{saga.Running, "reserve stock", sagaStep, "step reserve stock"},
	{saga.Running, "take payment", sagaStep, "step take payment"},
	{saga.Compensating, "take payment", "payment.declined", ""},
	{saga.Stuck, "reserve stock undone", sagaStep, "step reserve stock could not be undone"},
}

// fillSagas adds instances of a saga of orders: 4711 is stuck, 4712 waits for its payment, and
// others have ended.
func (s *Stage) fillSagas(ctx context.Context) error {
	for i := range 6 {
		pr := saga.Progress{Topic: "order.saga", Turn: 3, Done: 2}
		if err := s.addInstance(ctx, fmt.Sprint(4700+i), pr, append(declined[:3:3], sagaChange{saga.Completed, "take payment", "payment.taken", ""})); err != nil {
			return err
		}
	}
	if err := s.addInstance(ctx, "4711", saga.Progress{Topic: "order.saga", Turn: 4, Done: 1, Back: true}, declined); err != nil {
		return err
	}
	waiting := saga.Progress{Topic: "order.saga", Turn: 2, Done: 1, Waiting: true, Timeouts: map[string]string{"take payment": "t-1"}}
	return s.addInstance(ctx, "4712", waiting, declined[:3])
}

// addInstance lets an instance go its way.
func (s *Stage) addInstance(ctx context.Context, key string, pr saga.Progress, way []sagaChange) error {
	in := saga.Instance{
		ID: saga.ID{Tenant: waybill.DefaultTenant, Saga: "order", Key: key}, Definition: 1, Progress: pr,
		Data: json.RawMessage(`{"customer":"Ann Example","total":"129.90","reservation":"R-` + key + `"}`),
	}
	for i, c := range way {
		e := saga.Entry{
			MessageID: fmt.Sprintf("order-%s-%d", key, i+1), MessageType: c.message, From: in.State, To: c.state, Status: c.status,
			Definition: 1, Node: "shop-2", Note: c.note,
		}
		in.State, in.Status = c.state, c.status
		if c.status == saga.Stuck {
			in.Error = "warehouse: release R-" + key + ": 502 Bad Gateway"
		}
		_, err := s.Store.Transact(ctx, func(ctx context.Context, tx *memstore.Tx) (outbox.Batch, error) {
			_, err := s.Store.WriteSaga(ctx, tx, &in, e)
			return outbox.Batch{}, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
