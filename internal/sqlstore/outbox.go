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

// Transact implements [outbox.Store].
func (c *Core[Tx]) Transact(ctx context.Context, fn func(ctx context.Context, tx Tx) ([]waybill.Message, error), unique bool) (isNew []bool, err error) {
	err = c.InTx(ctx, func(tx Tx, conn sqldb.Conn) error {
		msgs, err := fn(ctx, tx)
		if err != nil {
			return FromCaller(err)
		}
		isNew, err = c.Enqueue(ctx, conn, msgs, unique)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.WakeRelay()
	return isNew, nil
}
