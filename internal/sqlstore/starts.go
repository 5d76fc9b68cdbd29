package sqlstore

import (
	"context"

	"github.com/waybill-go/waybill/inbox"
)

// SaveStarts implements [contract.Inbox]. After the key SaveStarts takes the number; it inserts the
// row if there is none. ClearStarts changes the row if there is one. A transaction that handles a
// redelivered message holds the row's lock.
func (c *Core[Tx]) SaveStarts(ctx context.Context, key inbox.Key, starts int) error {
	if starts == 0 {
		_, err := c.brief(c.DB).Exec(ctx, c.SQL.ClearStarts, keyArgs(key)...)
		return c.kindBefore(err)
	}
	_, err := c.brief(c.DB).Exec(ctx, c.SQL.SaveStarts, append(keyArgs(key), starts)...)
	return c.kindBefore(err)
}
