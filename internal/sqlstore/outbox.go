package sqlstore

import (
	"context"

	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/outbox"
)

// EnqueueMessages implements [outbox.Store].
func (c *Core[Tx]) EnqueueMessages(ctx context.Context, tx Tx, b outbox.Batch) ([]bool, error) {
	isNew, err := c.Enqueue(ctx, c.DB.On(tx), b)
	return isNew, c.Kind(err)
}

// Transact implements [outbox.Store]. The enqueue and COMMIT share a round trip where the
// driver can do that.
func (c *Core[Tx]) Transact(ctx context.Context, fn func(ctx context.Context, tx Tx) (outbox.Batch, error)) ([]bool, error) {
	var b outbox.Batch
	var isNew []bool
	err := sqldb.InTxBefore(ctx, c.callers(), func(tx Tx) (err error) {
		b, err = fn(ctx, tx)
		return FromCaller(err)
	}, func(conn sqldb.Conn) (err error) {
		isNew, err = c.Enqueue(ctx, conn, b)
		return err
	})
	if err != nil {
		return nil, c.Kind(err)
	}
	c.WakeRelay()
	return isNew, nil
}
