package sqlstore

import (
	"context"
	"time"

	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/outbox"
)

// MessageStates implements [outbox.Inspector].
func (c *Core[Tx]) MessageStates(ctx context.Context, id string) ([]outbox.State, error) {
	rows, err := c.DB.Query(ctx, c.SQL.MessageStates, id)
	states, err := sqldb.Collect(rows, err, func(r sqldb.Rows) (v outbox.State, err error) {
		var enqueued, due, published sqldb.Time
		err = r.Scan(&v.ID, &v.Status, &v.Topic, &v.Destination, &v.Type, &v.Source, &v.Tenant, &v.Key,
			&v.Attempts, &v.Error, &enqueued, &due, &published)
		v.EnqueuedAt, v.DueAt, v.PublishedAt = enqueued.UTC(), due.Pointer(), published.Pointer()
		return v, err
	})
	return states, c.Kind(err)
}

// OutboxStats implements [outbox.Inspector]. The statement returns ages in seconds. It reads
// whole tables: not for every second.
func (c *Core[Tx]) OutboxStats(ctx context.Context) ([]outbox.Stats, error) {
	return c.stats(ctx, c.SQL.OutboxStats)
}

// OutboxBacklog implements [outbox.Inspector].
func (c *Core[Tx]) OutboxBacklog(ctx context.Context) ([]outbox.Stats, error) {
	return c.stats(ctx, c.SQL.OutboxBacklog)
}

func (c *Core[Tx]) stats(ctx context.Context, query string) ([]outbox.Stats, error) {
	rows, err := c.DB.Query(ctx, query)
	stats, err := sqldb.Collect(rows, err, func(r sqldb.Rows) (v outbox.Stats, err error) {
		var age float64
		err = r.Scan(&v.Topic, &v.Status, &v.Count, &age)
		v.Oldest = time.Duration(age * float64(time.Second))
		return v, err
	})
	return stats, c.Kind(err)
}
