package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/rows"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/schedule"
)

// Now implements [schedule.Store].
func (s *Store) Now(_ context.Context, tx *Tx) (time.Time, error) { return s.now().UTC(), tx.given() }

// AddScheduled implements [schedule.Store].
func (s *Store) AddScheduled(_ context.Context, tx *Tx, m *waybill.Message) (bool, error) {
	if err := tx.step("schedule a message"); err != nil {
		return false, err
	}
	if s.token(m.ID) != nil {
		return false, nil
	}
	r := tx.newRow(m.Clone())
	put(tx, s.data.scheduled, r.Position, r)
	put(tx, s.data.tokens, m.ID, r.Position)
	return true, nil
}

// token returns what was scheduled by itself under an id, nil if nothing is.
func (s *Store) token(id string) *rows.Row { return s.data.scheduled[s.data.tokens[id]] }

// CancelScheduled implements [schedule.Store].
func (s *Store) CancelScheduled(_ context.Context, tx *Tx, id string) (bool, error) {
	if err := tx.step("cancel a scheduled message"); err != nil {
		return false, err
	}
	r := s.token(id)
	if r == nil {
		return false, nil
	}
	drop(tx, s.data.scheduled, r.Position)
	return true, nil
}

// MoveScheduled implements [schedule.Store].
func (s *Store) MoveScheduled(_ context.Context, tx *Tx, id string, at time.Time) (bool, error) {
	if err := tx.step("move a scheduled message"); err != nil {
		return false, err
	}
	r := s.token(id)
	if r == nil {
		return false, nil
	}
	moved := *r
	moved.Message.DeliverAt = at.UTC()
	put(tx, s.data.scheduled, r.Position, &moved)
	return true, nil
}

// Scheduled implements [schedule.Inspector].
func (s *Store) Scheduled(ctx context.Context, id string) (m waybill.Message, err error) {
	err = s.inTx(ctx, func(*Tx) error {
		r := s.token(id)
		if r == nil {
			return waybill.ErrNotFound
		}
		m = r.Message.Clone()
		return nil
	})
	return m, err
}

// ReadSchedule implements [schedule.Store].
func (s *Store) ReadSchedule(_ context.Context, tx *Tx, name string) (schedule.State, error) {
	if err := tx.given(); err != nil {
		return schedule.State{}, err
	}
	state, found := s.data.schedules[name]
	if !found {
		return state, waybill.ErrNotFound
	}
	return state, nil
}

// Schedule implements [schedule.Inspector].
func (s *Store) Schedule(ctx context.Context, name string) (state schedule.State, err error) {
	err = s.inTx(ctx, func(tx *Tx) error {
		state, err = s.ReadSchedule(ctx, tx, name)
		return err
	})
	return state, err
}

// WriteSchedule implements [schedule.Store].
func (s *Store) WriteSchedule(_ context.Context, tx *Tx, state schedule.State) (bool, error) {
	if err := tx.given(); err != nil {
		return false, err
	}
	if s.data.schedules[state.Name].Version != state.Version {
		return false, nil
	}
	if state.Version == 0 {
		state.Version = schedule.FirstVersion()
	}
	state.Version++
	put(tx, s.data.schedules, state.Name, state)
	return true, nil
}

// RemoveSchedule implements [schedule.Store].
func (s *Store) RemoveSchedule(_ context.Context, tx *Tx, name string) (bool, error) {
	if err := tx.given(); err != nil {
		return false, err
	}
	_, found := s.data.schedules[name]
	drop(tx, s.data.schedules, name)
	return found, nil
}

// Schedules implements [schedule.Inspector].
func (s *Store) Schedules(ctx context.Context, after string, limit int) (list []schedule.State, err error) {
	err = s.inTx(ctx, func(*Tx) error {
		list = sorted(s.data.schedules, func(x schedule.State) bool { return x.Name > after }, func(x schedule.State) string { return x.Name })
		return nil
	})
	return list[:min(limit, len(list))], err
}

// DueSchedules implements [schedule.Source].
func (s *Store) DueSchedules(ctx context.Context, after *schedule.State, limit int) (due schedule.Due, err error) {
	err = s.inTx(ctx, func(tx *Tx) error {
		due.Now = s.now().UTC()
		for _, state := range s.data.schedules {
			switch {
			case state.NextAt.IsZero():
			case !state.NextAt.After(due.Now):
				if after == nil || inOrder(after, &state) < 0 {
					busy, err := tx.rows().Unpublished(ctx, state.LastIdentity())
					if err != nil {
						return err
					}
					due.List = append(due.List, schedule.DueState{State: state, Busy: busy})
				}
			case due.Next.IsZero() || state.NextAt.Before(due.Next):
				due.Next = state.NextAt
			}
		}
		slices.SortFunc(due.List, func(a, b schedule.DueState) int { return inOrder(&a.State, &b.State) })
		due.List = due.List[:min(limit, len(due.List))]
		return nil
	})
	return due, err
}

// inOrder compares schedules by their next planned time and name.
func inOrder(a, b *schedule.State) int {
	return cmp.Or(a.NextAt.Compare(b.NextAt), cmp.Compare(a.Name, b.Name))
}

// FireSchedule implements [schedule.Source].
func (s *Store) FireSchedule(ctx context.Context, state schedule.State, m *waybill.Message) (fired bool, err error) {
	err = s.inTx(ctx, func(tx *Tx) error {
		if fired, err = s.WriteSchedule(ctx, tx, state); fired && m != nil {
			_, err = tx.rows().Enqueue(ctx, outbox.Batch{Messages: []waybill.Message{*m}})
		}
		return err
	})
	if err != nil {
		return false, err
	}
	s.WakeRelay()
	return fired, nil
}
