package sqlstore

import (
	"context"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// EnqueueMessages implements [outbox.Store].
func (c *Core[Tx]) EnqueueMessages(ctx context.Context, tx Tx, msgs []waybill.Message, unique bool) ([]bool, error) {
	isNew, err := c.Enqueue(ctx, c.DB.On(tx), msgs, unique)
	return isNew, c.Kind(err)
}

// Transact implements [outbox.Store]. The enqueue and COMMIT share a round trip where the
// driver can do that.
func (c *Core[Tx]) Transact(ctx context.Context, fn func(ctx context.Context, tx Tx) ([]waybill.Message, error), unique bool) ([]bool, error) {
	var msgs []waybill.Message
	var isNew []bool
	err := sqldb.InTxBefore(ctx, c.callers(), func(tx Tx) (err error) {
		msgs, err = fn(ctx, tx)
		return FromCaller(err)
	}, func(conn sqldb.Conn) (err error) {
		isNew, err = c.Enqueue(ctx, conn, msgs, unique)
		return err
	})
	if err != nil {
		return nil, c.Kind(err)
	}
	c.WakeRelay()
	return isNew, nil
}
