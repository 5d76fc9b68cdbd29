package sqlstore

import (
	"context"
	"math"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/schedule"
)

// ScheduledMessages implements [schedule.Inspector].
func (c *Core[Tx]) ScheduledMessages(ctx context.Context, after *schedule.ScheduledMessage, limit int) ([]schedule.ScheduledMessage, error) {
	from, position := time.Unix(0, 0), int64(math.MinInt64)
	if after != nil {
		from, position = after.DueAt, after.Position
	}
	rows, err := c.DB.Query(ctx, c.SQL.Schedules.Messages, sqldb.Timestamp(from), position, limit)
	list, err := sqldb.Collect(rows, err, func(r sqldb.Rows) (m schedule.ScheduledMessage, err error) {
		var due sqldb.Time
		err = r.Scan(&m.ID, &m.Topic, &m.Type, &m.Source, &m.Tenant, &m.Key, &due, &m.Cancellable, &m.Position)
		m.DueAt = due.UTC()
		return m, err
	})
	return list, c.Kind(err)
}

// ScheduleStats implements [schedule.Inspector].
func (c *Core[Tx]) ScheduleStats(ctx context.Context) (schedule.Stats, error) {
	rows, err := c.DB.Query(ctx, c.SQL.Schedules.Stats)
	stats, _, err := sqldb.One(rows, err, func(r sqldb.Rows) (v schedule.Stats, err error) {
		var now, first, firstMessage sqldb.Time
		err = r.Scan(&now, &v.Active, &v.Paused, &v.Ended, &v.Due, &first, &v.DueMessages, &firstMessage)
		v.Late, v.LateMessages = late(now, first), late(now, firstMessage)
		return v, err
	})
	return stats, c.Kind(err)
}

// late returns how long ago a time came; 0 for none.
func late(now, due sqldb.Time) time.Duration {
	if due.Pointer() == nil {
		return 0
	}
	return max(0, now.UTC().Sub(due.UTC()))
}

// ChangeSchedule implements [schedule.OperatorStore].
func (c *Core[Tx]) ChangeSchedule(ctx context.Context, s schedule.State, a deadletter.Entry) (bool, error) {
	return c.audited(ctx, a, func(tx Tx) (bool, error) { return c.WriteSchedule(ctx, tx, s) })
}

// DropSchedule implements [schedule.OperatorStore].
func (c *Core[Tx]) DropSchedule(ctx context.Context, name string, a deadletter.Entry) (bool, error) {
	return c.audited(ctx, a, func(tx Tx) (bool, error) { return c.RemoveSchedule(ctx, tx, name) })
}

// ScheduleMessage implements [schedule.OperatorStore].
func (c *Core[Tx]) ScheduleMessage(ctx context.Context, m *waybill.Message, a deadletter.Entry) (bool, error) {
	return c.audited(ctx, a, func(tx Tx) (bool, error) { return c.AddScheduled(ctx, tx, m) })
}

// DropScheduled implements [schedule.OperatorStore].
func (c *Core[Tx]) DropScheduled(ctx context.Context, id string, a deadletter.Entry) (bool, error) {
	return c.audited(ctx, a, func(tx Tx) (bool, error) { return c.CancelScheduled(ctx, tx, id) })
}

// audited runs a change and, if it has changed something, records it, in one transaction.
func (c *Core[Tx]) audited(ctx context.Context, a deadletter.Entry, change func(tx Tx) (bool, error)) (changed bool, err error) {
	act := deadletter.Act{By: a.By, Why: a.Why}
	if err := act.Check(); err != nil {
		return false, err
	}
	err = c.InTx(ctx, func(tx Tx, conn sqldb.Conn) error {
		if changed, err = change(tx); err != nil || !changed {
			return err
		}
		return c.audit(ctx, conn, a.Action, act, a)
	})
	return changed && err == nil, err
}
