package sqlstore

import (
	"cmp"
	"context"
	"time"

	"github.com/waybill-go/waybill/internal/span"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/outbox"
)

// MessageStates implements [outbox.Inspector].
func (c *Core[Tx]) MessageStates(ctx context.Context, id string) ([]outbox.State, error) {
	return c.messageStates(ctx, c.SQL.MessageStates, id)
}

// StateColumns are what a message's state is read from.
const StateColumns = `id, status, topic, destination, type, source, tenant, {key}, attempts, error, enqueued_at, due_at, published_at`

// MessageFilter is the condition of a filter but for its status. It is, with what is built on it,
// for stores that keep times as microseconds.
const MessageFilter = `($2 = '' OR topic = $2) AND ($3 = '' OR tenant = $3) AND ($4 = '' OR {key} = $4)
   AND ($5 = '' OR correlation_id = $5) AND ($6 = 0 OR enqueued_at <= {now} - CAST($6 * 1000 AS {integer})) AND ` + MessageText

// MessageText is the rest of that condition, on every store.
const MessageText = `($8 = '' OR id = $8)
   AND ($9 = '' OR lower({text:id}) LIKE lower($9) ESCAPE '!' OR lower({text:key}) LIKE lower($9) ESCAPE '!' OR lower({text:correlation_id}) LIKE lower($9) ESCAPE '!')`

// PublishedMessagesSQL goes back on the archive's primary key.
const PublishedMessagesSQL = `
SELECT id, 'Published', topic, destination, CASE WHEN type = '' THEN topic ELSE type END, source, tenant, {key}, attempts, '', enqueued_at, NULL, published_at
  FROM {outbox_archive}
 WHERE $1 <> '' AND ` + MessageFilter + `
 ORDER BY published_at DESC LIMIT $7`

// OutboxMessages implements [outbox.Inspector]. Both statements take the filter's fields in
// the order status, topic, tenant, key, correlation id, least age in milliseconds, limit, id, and a
// pattern of the text.
func (c *Core[Tx]) OutboxMessages(ctx context.Context, f outbox.Filter) ([]outbox.State, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	query := c.SQL.OutboxMessages
	if f.Status == outbox.Published {
		query = c.SQL.PublishedMessages
	}
	return c.messageStates(ctx, query, string(f.Status), f.Topic, f.Tenant, f.Key, f.CorrelationID,
		Millis(f.OlderThan), cmp.Or(f.Limit, outbox.DefaultLimit), f.MessageID, contains(f.Text))
}

func (c *Core[Tx]) messageStates(ctx context.Context, query string, args ...any) ([]outbox.State, error) {
	rows, err := c.DB.Query(ctx, query, args...)
	states, err := sqldb.Collect(rows, err, func(r sqldb.Rows) (v outbox.State, err error) {
		var enqueued, due, published sqldb.Time
		err = r.Scan(&v.ID, &v.Status, &v.Topic, &v.Destination, &v.Type, &v.Source, &v.Tenant, &v.Key,
			&v.Attempts, &v.Error, &enqueued, &due, &published)
		v.EnqueuedAt, v.DueAt, v.PublishedAt = enqueued.UTC(), due.Pointer(), published.Pointer()
		return v, err
	})
	return states, c.Kind(err)
}

// SinceSQL is what the age of a message on its way counts from: that of a scheduled one from when
// it came due.
const SinceSQL = `CASE WHEN deliver_at > enqueued_at THEN deliver_at ELSE enqueued_at END AS since`

// OnItsWaySQL lists what is pending and what is waiting.
const OnItsWaySQL = `
        SELECT topic, 'Pending' AS status, '' AS consumer, ` + SinceSQL + ` FROM {outbox} WHERE deliver_at IS NULL OR deliver_at <= {now}
        UNION ALL
        SELECT topic, 'Waiting', '', ` + SinceSQL + ` FROM {outbox_waiting}`

// ElsewhereSQL lists the messages that are scheduled or published, for stores with a view of all.
const ElsewhereSQL = `
        SELECT topic, status, '', ` + ElsewhereSinceSQL + ` FROM {messages} WHERE status IN ('Scheduled', 'Published')`

// ElsewhereSinceSQL is what their age counts from.
const ElsewhereSinceSQL = `CASE WHEN status = 'Scheduled' THEN due_at ELSE enqueued_at END`

// GivenUpSQL lists the dead letters of which something is to be decided, whosever they are, and
// those of the relay that were discarded.
const GivenUpSQL = `
        SELECT topic, CASE WHEN failed THEN 'Failed' ELSE 'Dead' END, consumer, enqueued_at FROM {dead_letters} WHERE state = 'open' AND requeued_at IS NULL
        UNION ALL
        SELECT topic, 'Discarded', '', enqueued_at FROM {dead_letters} WHERE state = 'discarded' AND origin = 'relay'`

// OutboxStats implements [outbox.Inspector]. The statement returns ages in seconds. It reads
// whole tables: not for every second.
func (c *Core[Tx]) OutboxStats(ctx context.Context) ([]outbox.Stats, error) {
	return c.outboxStats(ctx, c.SQL.OutboxStats)
}

// OutboxBacklog implements [outbox.Inspector].
func (c *Core[Tx]) OutboxBacklog(ctx context.Context) ([]outbox.Stats, error) {
	return c.outboxStats(ctx, c.SQL.OutboxBacklog)
}

func (c *Core[Tx]) outboxStats(ctx context.Context, query string) ([]outbox.Stats, error) {
	rows, err := c.DB.Query(ctx, query)
	stats, err := sqldb.Collect(rows, err, func(r sqldb.Rows) (v outbox.Stats, err error) {
		var age float64
		err = r.Scan(&v.Topic, &v.Status, &v.Consumer, &v.Count, &age)
		v.Oldest = span.Of(age, time.Second)
		return v, err
	})
	return stats, c.Kind(err)
}
