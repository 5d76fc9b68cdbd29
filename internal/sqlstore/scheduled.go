package sqlstore

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/sqldb"
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
