package sqlstore

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// ScheduledColumns and ScheduledValues are what AddScheduled inserts: the arguments are those of
// [EnqueueArgs]. Only a row that was added so has a token, which is unique. Its position is the
// database's to give, a random negative one: those of the outbox are positive.
const (
	ScheduledColumns = `token, due_at, enqueued_at, id, topic, direct, {key}, type, source, tenant, subject, payload_bytes,
    content_type, data_schema, headers, correlation_id, causation_id, idempotency_key, trace_parent, trace_state, time, deliver_at, expires_at`
	ScheduledValues = `$1, $19, {now}, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20`
)

// The changes by token are compare-and-set: a relay takes the row away in the transaction that
// moves it into the outbox.
const (
	timeSQL            = `SELECT {now}`
	cancelScheduledSQL = `DELETE FROM {scheduled} WHERE token = $1`
	findScheduledSQL   = `SELECT {message} FROM {scheduled} WHERE token = $1`

	// MoveScheduledSQL counts rows that it finds, changed or not.
	MoveScheduledSQL = `UPDATE {scheduled} SET due_at = $2, deliver_at = $2 WHERE token = $1`
)

// Now implements [schedule.Store].
func (c *Core[Tx]) Now(ctx context.Context, tx Tx) (time.Time, error) {
	return c.time(ctx, c.DB.On(tx))
}

// ScheduleTime implements [schedule.Inspector].
func (c *Core[Tx]) ScheduleTime(ctx context.Context) (time.Time, error) {
	return c.time(ctx, c.DB)
}

func (c *Core[Tx]) time(ctx context.Context, conn sqldb.Conn) (time.Time, error) {
	rows, err := conn.Query(ctx, c.SQL.Schedules.Time)
	now, _, err := sqldb.One(rows, err, sqldb.Scan[sqldb.Time])
	return now.UTC(), c.Kind(err)
}

// AddScheduled implements [schedule.Store].
func (c *Core[Tx]) AddScheduled(ctx context.Context, tx Tx, m *waybill.Message) (bool, error) {
	return c.changed(ctx, c.DB.On(tx), c.SQL.Schedules.AddScheduled, EnqueueArgs(m)...)
}

// CancelScheduled implements [schedule.Store].
func (c *Core[Tx]) CancelScheduled(ctx context.Context, tx Tx, id string) (bool, error) {
	return c.changed(ctx, c.DB.On(tx), c.SQL.Schedules.CancelScheduled, id)
}

// MoveScheduled implements [schedule.Store].
func (c *Core[Tx]) MoveScheduled(ctx context.Context, tx Tx, id string, at time.Time) (bool, error) {
	return c.changed(ctx, c.DB.On(tx), c.SQL.Schedules.MoveScheduled, id, sqldb.Timestamp(at))
}

// changed runs a statement and reports whether it has changed a row.
func (c *Core[Tx]) changed(ctx context.Context, conn sqldb.Conn, stmt string, args ...any) (bool, error) {
	n, err := conn.Exec(ctx, stmt, args...)
	return n > 0, c.Kind(err)
}

// Scheduled implements [schedule.Inspector].
func (c *Core[Tx]) Scheduled(ctx context.Context, id string) (waybill.Message, error) {
	var row sqldb.MessageRow
	rows, err := c.DB.Query(ctx, c.SQL.Schedules.FindScheduled, id)
	m, found, err := sqldb.One(rows, err, func(r sqldb.Rows) (waybill.Message, error) {
		if err := r.Scan(row.Dest()...); err != nil {
			return waybill.Message{}, err
		}
		return row.Message()
	})
	if err == nil && !found {
		err = waybill.ErrNotFound
	}
	return m, c.Kind(err)
}
