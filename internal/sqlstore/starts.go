package sqlstore

import (
	"context"

	"github.com/waybill-go/waybill/inbox"
)

// SaveStarts implements [inbox.Inbox]. Behind the key SaveStarts takes the number; it inserts
// the row if there is none. ClearStarts changes the row if there is one. Who handles a message that
// was delivered before holds the row.
func (c *Core[Tx]) SaveStarts(ctx context.Context, key inbox.Key, starts int) error {
	if starts == 0 {
		_, err := c.brief(c.DB).Exec(ctx, c.SQL.ClearStarts, keyArgs(key)...)
		return c.kindBefore(err)
	}
	_, err := c.brief(c.DB).Exec(ctx, c.SQL.SaveStarts, append(keyArgs(key), starts)...)
	return c.kindBefore(err)
}
