package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

// Put creates a schedule, or changes the one of this name, in tx. It is meant to be called at each
// start of a program: as long as the times are the same (Cron, Every, TimeZone, Start, End and
// MaxExecutions), the schedule continues where it was, and what is due stays due. With other times
// it restarts from now.
//
// The error is an [*waybill.InvalidError] that names the field, before anything is stored, and a
// conflict if another transaction has changed the schedule.
func (s *Scheduler[Tx]) Put(ctx context.Context, tx Tx, r Recurring) error {
	r = r.complete()
	if err := r.check(); err != nil {
		return err
	}
	if err := s.prepareTemplate(ctx, &r); err != nil {
		return err
	}
	now, err := s.store.Now(ctx, tx)
	if err != nil {
		return fmt.Errorf("put schedule: %w", err)
	}
	old, err := s.store.ReadSchedule(ctx, tx, r.Name)
	if err != nil && !errors.Is(err, waybill.ErrNotFound) {
		return fmt.Errorf("put schedule: %w", err)
	}
	state, err := replaced(old, r, now)
	if err != nil {
		return err
	}
	return s.write(ctx, tx, state)
}

// prepareTemplate completes and checks the message, as an occurrence will have it.
func (s *Scheduler[Tx]) prepareTemplate(ctx context.Context, r *Recurring) error {
	m := r.Message.Clone()
	m.ID = occurrenceID(r.Name, time.Time{})
	prepared, err := s.writer.Prepare(ctx, m)
	if err != nil {
		return err
	}
	r.Message = prepared.Messages[0]
	r.Message.ID = ""
	r.Message.TraceParent, r.Message.TraceState = "", "" // each occurrence has a trace of its own
	return nil
}

// replaced returns the schedule as changed by Put; the version of old is 0 if there is none.
func replaced(old State, r Recurring, now time.Time) (State, error) {
	if old.Version > 0 && sameTimes(&old.Recurring, &r) {
		r.Start, r.Paused = old.Start, old.Paused
		old.Recurring = r
		return old, nil
	}
	if r.Start.IsZero() {
		r.Start = toSecond(now)
	}
	if old.Version > 0 {
		r.Paused = old.Paused
	}
	state := State{Recurring: r, Version: old.Version, LastAt: old.LastAt, LastID: old.LastID}
	c, err := calendarOf(&r)
	if err != nil {
		return State{}, err
	}
	next := c.after(now)
	if next.IsZero() {
		return State{}, invalid("Cron", "has no time in the future before End, by the database's clock")
	}
	if !r.Paused {
		state.NextAt = next
	}
	return state, nil
}

// write stores a changed schedule in tx.
func (s *Scheduler[Tx]) write(ctx context.Context, tx Tx, state State) error {
	written, err := s.store.WriteSchedule(ctx, tx, state)
	if err == nil && !written {
		err = waybill.ConflictError(errors.New("another transaction has changed it"))
	}
	if err != nil {
		return fmt.Errorf("write schedule: %w", err)
	}
	return nil
}

// Pause stops a schedule in tx until it is resumed. It returns false if the schedule is not active.
// An unknown name is [waybill.ErrNotFound].
func (s *Scheduler[Tx]) Pause(ctx context.Context, tx Tx, name string) (bool, error) {
	state, err := s.store.ReadSchedule(ctx, tx, name)
	if err != nil || !state.pause() {
		return false, err
	}
	return true, s.write(ctx, tx, state)
}

// Resume resumes a paused schedule in tx, from now: occurrences planned in the meantime are left
// out and not counted. It returns false if it is not paused. An unknown name is
// [waybill.ErrNotFound].
func (s *Scheduler[Tx]) Resume(ctx context.Context, tx Tx, name string) (bool, error) {
	state, err := s.store.ReadSchedule(ctx, tx, name)
	if err != nil {
		return false, err
	}
	now, err := s.store.Now(ctx, tx)
	if err != nil {
		return false, err
	}
	if resumed, err := state.resume(now); err != nil || !resumed {
		return false, err
	}
	return true, s.write(ctx, tx, state)
}

// RunNow enqueues the message of a schedule in tx at once, whatever its status is, and returns
// the id, which is made of the name and the time. The schedule itself is not changed. An unknown
// name is [waybill.ErrNotFound].
func (s *Scheduler[Tx]) RunNow(ctx context.Context, tx Tx, name string) (id string, err error) {
	state, err := s.store.ReadSchedule(ctx, tx, name)
	if err != nil {
		return "", err
	}
	now, err := s.store.Now(ctx, tx)
	if err != nil {
		return "", err
	}
	m := state.byHand(now)
	if _, err := s.writer.Enqueue(ctx, tx, m); err != nil {
		return "", err
	}
	return m.ID, nil
}

// Remove removes a schedule in tx. It returns false if there is none. Messages that it has enqueued
// are still published.
func (s *Scheduler[Tx]) Remove(ctx context.Context, tx Tx, name string) (bool, error) {
	return s.store.RemoveSchedule(ctx, tx, name)
}
