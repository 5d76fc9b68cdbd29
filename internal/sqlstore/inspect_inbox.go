package sqlstore

import (
	"context"
	"time"

	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/span"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// InboxStates implements [inspect.Inbox]. The statement takes the id and the consumer.
func (c *Core[Tx]) InboxStates(ctx context.Context, id, consumer string) ([]inspect.InboxState, error) {
	rows, err := c.DB.Query(ctx, c.SQL.InboxStates, id, consumer)
	states, err := sqldb.Collect(rows, err, func(r sqldb.Rows) (v inspect.InboxState, err error) {
		var processed, dead, due sqldb.Time
		err = r.Scan(&v.Tenant, &v.Consumer, &v.Source, &v.Alias, &v.Message, &v.MessageID, &v.Type,
			&processed, &dead, &v.Attempts, &due, &v.Error)
		v.ProcessedAt, v.DeadAt, v.DueAt = processed.Pointer(), dead.Pointer(), due.Pointer()
		return v, err
	})
	return states, c.Kind(err)
}

// InboxSize implements [inspect.InboxSizer]. The statement returns the approximate number of records, and
// the age of the oldest in seconds; no row if there is none.
func (c *Core[Tx]) InboxSize(ctx context.Context) (inspect.InboxSize, error) {
	rows, err := c.DB.Query(ctx, c.SQL.InboxSize)
	size, _, err := sqldb.One(rows, err, func(r sqldb.Rows) (v inspect.InboxSize, err error) {
		var age float64
		err = r.Scan(&v.Records, &age)
		v.Oldest = span.Of(age, time.Second)
		return v, err
	})
	return size, c.Kind(err)
}
