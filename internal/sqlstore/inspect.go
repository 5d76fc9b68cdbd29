package sqlstore

import (
	"cmp"
	"context"
	"time"

	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/span"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// MessageStates implements [inspect.Outbox].
func (c *Core[Tx]) MessageStates(ctx context.Context, id string) ([]inspect.MessageState, error) {
	return c.messageStates(ctx, c.SQL.MessageStates, id)
}

// OutboxMessages implements [inspect.Outbox]. Both statements take the filter's fields in
// the order status, topic, tenant, key, correlation id, least age in milliseconds, limit, id, and a
// pattern of the text.
func (c *Core[Tx]) OutboxMessages(ctx context.Context, f inspect.Filter) ([]inspect.MessageState, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	query := c.SQL.OutboxMessages
	if f.Status == inspect.Published {
		query = c.SQL.PublishedMessages
	}
	return c.messageStates(ctx, query, string(f.Status), f.Topic, f.Tenant, f.Key, f.CorrelationID,
		Millis(f.OlderThan), cmp.Or(f.Limit, inspect.DefaultLimit), f.MessageID, contains(f.Text))
}

func (c *Core[Tx]) messageStates(ctx context.Context, query string, args ...any) ([]inspect.MessageState, error) {
	rows, err := c.DB.Query(ctx, query, args...)
	states, err := sqldb.Collect(rows, err, func(r sqldb.Rows) (v inspect.MessageState, err error) {
		var enqueued, due, published sqldb.Time
		err = r.Scan(&v.ID, &v.Status, &v.Topic, &v.Destination, &v.Type, &v.Source, &v.Tenant, &v.Key,
			&v.Attempts, &v.Error, &enqueued, &due, &published)
		v.EnqueuedAt, v.DueAt, v.PublishedAt = enqueued.UTC(), due.Pointer(), published.Pointer()
		return v, err
	})
	return states, c.Kind(err)
}

// OutboxStats implements [inspect.Outbox]. The statement returns ages in seconds. It reads whole
// tables: do not call it every second.
func (c *Core[Tx]) OutboxStats(ctx context.Context) ([]inspect.Stats, error) {
	return c.outboxStats(ctx, c.SQL.OutboxStats)
}

// OutboxBacklog implements [inspect.Outbox].
func (c *Core[Tx]) OutboxBacklog(ctx context.Context) ([]inspect.Stats, error) {
	return c.outboxStats(ctx, c.SQL.OutboxBacklog)
}

func (c *Core[Tx]) outboxStats(ctx context.Context, query string) ([]inspect.Stats, error) {
	rows, err := c.DB.Query(ctx, query)
	stats, err := sqldb.Collect(rows, err, func(r sqldb.Rows) (v inspect.Stats, err error) {
		var age float64
		err = r.Scan(&v.Topic, &v.Status, &v.Consumer, &v.Count, &age)
		v.Oldest = span.Of(age, time.Second)
		return v, err
	})
	return stats, c.Kind(err)
}
