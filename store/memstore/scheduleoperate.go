package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/rows"
	"github.com/waybill-go/waybill/schedule"
)

// ScheduleTime implements [schedule.Inspector].
func (s *Store) ScheduleTime(context.Context) (time.Time, error) { return s.now().UTC(), nil }

// ScheduledMessages implements [schedule.Inspector].
func (s *Store) ScheduledMessages(ctx context.Context, after *schedule.ScheduledMessage, limit int) ([]schedule.ScheduledMessage, error) {
	list := []schedule.ScheduledMessage{}
	err := s.inTx(ctx, func(*Tx) error {
		for _, r := range s.data.scheduled {
			if m := s.scheduledMessage(r); after == nil || byDue(m, *after) > 0 {
				list = append(list, m)
			}
		}
		return nil
	})
	slices.SortFunc(list, byDue)
	return list[:min(limit, len(list))], err
}

func (s *Store) scheduledMessage(r *rows.Row) schedule.ScheduledMessage {
	m := &r.Message
	return schedule.ScheduledMessage{
		ID: m.ID, Topic: m.Address(), Type: cmp.Or(m.Type, m.Address()), Source: m.Source, Tenant: m.Tenant, Key: m.Key,
		DueAt: m.DeliverAt.UTC(), Cancellable: s.token(m.ID) == r, Position: r.Position,
	}
}

func byDue(a, b schedule.ScheduledMessage) int {
	return cmp.Or(a.DueAt.Compare(b.DueAt), cmp.Compare(a.Position, b.Position))
}

// ScheduleStats implements [schedule.Inspector].
func (s *Store) ScheduleStats(ctx context.Context) (stats schedule.Stats, err error) {
	err = s.inTx(ctx, func(*Tx) error {
		now := s.now()
		for _, state := range s.data.schedules {
			switch state.Status() {
			case schedule.Paused:
				stats.Paused++
			case schedule.Ended:
				stats.Ended++
			default:
				stats.Active++
				countDue(&stats.Due, &stats.Late, now.Sub(state.NextAt))
			}
		}
		for _, r := range s.data.scheduled {
			countDue(&stats.DueMessages, &stats.LateMessages, now.Sub(r.Message.DeliverAt))
		}
		return nil
	})
	return stats, err
}

// countDue counts what is late by a duration, unless that is negative.
func countDue(count *int64, latest *time.Duration, late time.Duration) {
	if late >= 0 {
		*count++
		*latest = max(*latest, late)
	}
}

// ChangeSchedule implements [schedule.OperatorStore].
func (s *Store) ChangeSchedule(ctx context.Context, state schedule.State, a deadletter.Entry) (bool, error) {
	return s.audited(ctx, a, func(tx *Tx) (bool, error) { return s.WriteSchedule(ctx, tx, state) })
}

// DropSchedule implements [schedule.OperatorStore].
func (s *Store) DropSchedule(ctx context.Context, name string, a deadletter.Entry) (bool, error) {
	return s.audited(ctx, a, func(tx *Tx) (bool, error) { return s.RemoveSchedule(ctx, tx, name) })
}

// ScheduleMessage implements [schedule.OperatorStore].
func (s *Store) ScheduleMessage(ctx context.Context, m *waybill.Message, a deadletter.Entry) (bool, error) {
	return s.audited(ctx, a, func(tx *Tx) (bool, error) { return s.AddScheduled(ctx, tx, m) })
}

// DropScheduled implements [schedule.OperatorStore].
func (s *Store) DropScheduled(ctx context.Context, id string, a deadletter.Entry) (bool, error) {
	return s.audited(ctx, a, func(tx *Tx) (bool, error) { return s.CancelScheduled(ctx, tx, id) })
}

// audited runs a change and, if it has changed something, records it, in one transaction.
func (s *Store) audited(ctx context.Context, a deadletter.Entry, change func(tx *Tx) (bool, error)) (changed bool, err error) {
	act := deadletter.Act{By: a.By, Why: a.Why}
	if err := act.Check(); err != nil {
		return false, err
	}
	err = s.inTx(ctx, func(tx *Tx) error {
		if changed, err = change(tx); err != nil || !changed {
			return err
		}
		return tx.rows().Note(ctx, a.Action, act, a)
	})
	return changed && err == nil, err
}
