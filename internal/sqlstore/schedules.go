package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/schedule"
)

// ScheduleStatements are the SQL texts about what is scheduled.
type ScheduleStatements struct {
	Time                                                        string
	AddScheduled, CancelScheduled, MoveScheduled, FindScheduled string
	Add, Update, Remove, Read, List                             string
	Due, Busy, Next                                             string

	// Hold takes a name and a version, and locks the schedule until the transaction ends. It does not
	// wait: there is no row if another transaction has locked it. Where possible it also limits the
	// transaction's later waits for locks to a short time. Empty if there is only one writer anyway.
	Hold string `sql:",optional"`

	Messages, Stats string
}

// scheduleDest returns the destinations for schedule_columns, and a function that then completes the
// state.
func scheduleDest(s *schedule.State) (dest []any, done func() error) {
	var plan []byte
	var next, last sqldb.Time
	dest = []any{&s.Name, &s.Version, &plan, &s.Paused, &next, &last, &s.LastID, &s.Executions, &s.Skipped}
	return dest, func() error {
		s.NextAt, s.LastAt = next.UTC(), last.UTC()
		name := s.Name
		if err := json.Unmarshal(plan, &s.Recurring); err != nil {
			s.Recurring = schedule.Recurring{Name: name}
			return fmt.Errorf("plan of a schedule: %w", err)
		}
		s.Name = name
		return nil
	}
}

func scanSchedule(r sqldb.Rows) (s schedule.State, err error) {
	dest, done := scheduleDest(&s)
	if err := r.Scan(dest...); err != nil {
		return s, err
	}
	return s, done()
}

// scanAnySchedule is for lists, which also show a schedule whose plan cannot be read.
func scanAnySchedule(r sqldb.Rows) (s schedule.State, err error) {
	dest, done := scheduleDest(&s)
	err = r.Scan(dest...)
	_ = done() // then only the name is known
	return s, err
}

func scanDueSchedule(r sqldb.Rows) (d schedule.DueState, err error) {
	dest, done := scheduleDest(&d.State)
	if err := r.Scan(append(dest, &d.Busy)...); err != nil {
		return d, err
	}
	d.Malformed = done()
	return d, nil
}

// ReadSchedule implements [schedule.Store].
func (c *Core[Tx]) ReadSchedule(ctx context.Context, tx Tx, name string) (schedule.State, error) {
	return c.readSchedule(ctx, c.DB.On(tx), name)
}

// Schedule implements [schedule.Inspector].
func (c *Core[Tx]) Schedule(ctx context.Context, name string) (schedule.State, error) {
	return c.readSchedule(ctx, c.DB, name)
}

func (c *Core[Tx]) readSchedule(ctx context.Context, conn sqldb.Conn, name string) (schedule.State, error) {
	rows, err := conn.Query(ctx, c.SQL.Schedules.Read, name)
	s, found, err := sqldb.One(rows, err, scanSchedule)
	if err == nil && !found {
		err = waybill.ErrNotFound
	}
	return s, c.Kind(err)
}

// WriteSchedule implements [schedule.Store].
func (c *Core[Tx]) WriteSchedule(ctx context.Context, tx Tx, s schedule.State) (bool, error) {
	return c.writeSchedule(ctx, c.DB.On(tx), &s)
}

func (c *Core[Tx]) writeSchedule(ctx context.Context, conn sqldb.Conn, s *schedule.State) (bool, error) {
	plan, err := json.Marshal(s.Recurring)
	if err != nil {
		return false, fmt.Errorf("plan of a schedule: %w", err)
	}
	args := []any{s.Name, string(plan), s.Paused, sqldb.Timestamp(s.NextAt), sqldb.Timestamp(s.LastAt), s.LastID, s.Executions, s.Skipped}
	if s.Version == 0 {
		return c.changed(ctx, conn, c.SQL.Schedules.Add, append(args, schedule.FirstVersion())...)
	}
	return c.changed(ctx, conn, c.SQL.Schedules.Update, append(args, s.Version)...)
}

// RemoveSchedule implements [schedule.Store].
func (c *Core[Tx]) RemoveSchedule(ctx context.Context, tx Tx, name string) (bool, error) {
	return c.changed(ctx, c.DB.On(tx), c.SQL.Schedules.Remove, name)
}

// Schedules implements [schedule.Inspector].
func (c *Core[Tx]) Schedules(ctx context.Context, after string, limit int) ([]schedule.State, error) {
	rows, err := c.DB.Query(ctx, c.SQL.Schedules.List, after, limit)
	list, err := sqldb.Collect(rows, err, scanAnySchedule)
	return list, c.Kind(err)
}

// DueSchedules implements [schedule.Source].
func (c *Core[Tx]) DueSchedules(ctx context.Context, after *schedule.State, limit int) (due schedule.Due, err error) {
	rows, err := c.DB.Query(ctx, c.SQL.Schedules.Next)
	_, _, err = sqldb.One(rows, err, func(r sqldb.Rows) (struct{}, error) {
		var now, next sqldb.Time
		err := r.Scan(&now, &next)
		due.Now, due.Next = now.UTC(), next.UTC()
		return struct{}{}, err
	})
	if err != nil {
		return due, c.Kind(err)
	}
	from, name := time.Unix(0, 0), ""
	if after != nil {
		from, name = after.NextAt, after.Name
	}
	rows, err = c.DB.Query(ctx, c.SQL.Schedules.Due, sqldb.Timestamp(from), name, limit)
	due.List, err = sqldb.Collect(rows, err, scanDueSchedule)
	for i := 0; i < len(due.List) && err == nil; i++ {
		err = c.confirmBusy(ctx, &due.List[i])
	}
	return due, c.Kind(err)
}

// confirmBusy checks whether the pending message with the id of the latest occurrence is the
// schedule's own.
func (c *Core[Tx]) confirmBusy(ctx context.Context, d *schedule.DueState) error {
	if !d.Busy || d.Malformed != nil {
		return nil
	}
	id := d.LastIdentity()
	rows, err := c.DB.Query(ctx, c.SQL.Schedules.Busy, id.ID, id.Source, id.Tenant)
	d.Busy, _, err = sqldb.One(rows, err, sqldb.Scan[bool])
	return err
}

// FireSchedule implements [schedule.Source].
func (c *Core[Tx]) FireSchedule(ctx context.Context, s schedule.State, m *waybill.Message) (fired bool, err error) {
	err = c.InTx(ctx, func(_ Tx, conn sqldb.Conn) error {
		if held, err := c.holdSchedule(ctx, conn, &s); err != nil || !held {
			return err
		}
		if fired, err = c.writeSchedule(ctx, conn, &s); err != nil || !fired || m == nil {
			return err
		}
		_, err = c.Enqueue(ctx, c.brief(conn), outbox.Batch{Messages: []waybill.Message{*m}})
		return err
	})
	if err != nil {
		return false, err
	}
	if fired && m != nil {
		c.WakeRelay()
	}
	return fired, nil
}

// holdSchedule reports whether the schedule is stored with the version of s and not locked by another
// transaction: a transaction that changes one schedule and stays open does not hold up the others.
func (c *Core[Tx]) holdSchedule(ctx context.Context, conn sqldb.Conn, s *schedule.State) (bool, error) {
	if c.SQL.Schedules.Hold == "" {
		return true, nil
	}
	rows, err := conn.Query(ctx, c.SQL.Schedules.Hold, s.Name, s.Version)
	_, held, err := sqldb.One(rows, err, sqldb.Scan[string])
	return held, err
}
