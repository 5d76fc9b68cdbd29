package sqlstore

import (
	"context"
	"time"

	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/span"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// InboxStatesSQL has no index to go by: the keys begin with tenant and consumer.
const InboxStatesSQL = `
SELECT tenant, consumer, source, alias, message_key, message_id, type,
       CASE WHEN NOT dead THEN processed_at END, CASE WHEN dead THEN processed_at END, 0, NULL, ''
  FROM {inbox} WHERE (message_id = $1 OR message_key = $1) AND ($2 = '' OR consumer = $2)
UNION ALL
SELECT tenant, consumer, source, alias, message_key, '', '', NULL, NULL, attempts, due_at, error
  FROM {consumer_attempts} a
 WHERE message_key = $1 AND ($2 = '' OR consumer = $2)
   AND NOT EXISTS (SELECT 1 FROM {inbox} i WHERE i.tenant = a.tenant AND i.consumer = a.consumer AND i.source = a.source
                      AND i.alias = a.alias AND i.message_key = a.message_key)
 ORDER BY 2, 1, 3, 4, 5`

// InboxSizeSQL finds the oldest record by the index on the time. It does not tell how many there
// are: it is for a store that keeps no good count.
const InboxSizeSQL = `SELECT -1, ({now} - processed_at) / 1000000.0 FROM {inbox} ORDER BY processed_at LIMIT 1`

// InboxStates implements [inbox.Inspector]. The statement takes the id and the consumer.
func (c *Core[Tx]) InboxStates(ctx context.Context, id, consumer string) ([]inbox.State, error) {
	rows, err := c.DB.Query(ctx, c.SQL.InboxStates, id, consumer)
	states, err := sqldb.Collect(rows, err, func(r sqldb.Rows) (v inbox.State, err error) {
		var processed, dead, due sqldb.Time
		err = r.Scan(&v.Tenant, &v.Consumer, &v.Source, &v.Alias, &v.Message, &v.MessageID, &v.Type,
			&processed, &dead, &v.Attempts, &due, &v.Error)
		v.ProcessedAt, v.DeadAt, v.DueAt = processed.Pointer(), dead.Pointer(), due.Pointer()
		return v, err
	})
	return states, c.Kind(err)
}

// InboxSize implements [inbox.Sizer]. The statement returns about how many records there are,
// and the age of the oldest in seconds; no row if there is none.
func (c *Core[Tx]) InboxSize(ctx context.Context) (inbox.Size, error) {
	rows, err := c.DB.Query(ctx, c.SQL.InboxSize)
	size, _, err := sqldb.One(rows, err, func(r sqldb.Rows) (v inbox.Size, err error) {
		var age float64
		err = r.Scan(&v.Records, &age)
		v.Oldest = span.Of(age, time.Second)
		return v, err
	})
	return size, c.Kind(err)
}
