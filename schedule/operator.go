package schedule

import (
	"context"
	"errors"
	"log/slog"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/observe"
)

// The kinds of [deadletter.Action] that an [Operator] records in the audit log. Detail of such an
// entry is the name of the schedule, if it is about one.
const (
	ActPause  deadletter.Action = "schedule_pause"
	ActResume deadletter.Action = "schedule_resume"
	ActRun    deadletter.Action = "schedule_run"    // by hand; the entry has the message's id
	ActRemove deadletter.Action = "schedule_remove" // of a recurring schedule
	ActCancel deadletter.Action = "schedule_cancel" // of a message, whose id the entry has
)

// Actions returns all of them.
func Actions() []deadletter.Action {
	return []deadletter.Action{ActPause, ActResume, ActRun, ActRemove, ActCancel}
}

// Operator changes what is scheduled from outside of the program that has scheduled it, and records
// in the audit log who did so, and why. It is safe for concurrent use.
//
// Its methods return an [*waybill.InvalidError] about an act that [deadletter.Act.Check] refuses,
// before anything is stored.
type Operator struct {
	store    OperatorStore
	observer observe.Observer
}

// OperatorConfig configures an [Operator].
type OperatorConfig struct {
	// Observer receives messages scheduled by RunNow. Optional; the default logs to
	// slog.Default.
	Observer observe.Observer
}

// NewOperator returns an operator. The error is an [*waybill.InvalidError] that names what is
// missing.
func NewOperator(store OperatorStore, cfg OperatorConfig) (*Operator, error) {
	if store == nil {
		return nil, invalid("store", "is required")
	}
	if cfg.Observer == nil {
		cfg.Observer = observe.LogTo(slog.Default())
	}
	return &Operator{store: store, observer: cfg.Observer}, nil
}

// Pause stops a recurring schedule until it is resumed. It returns false if the schedule is not
// active. An unknown name is [waybill.ErrNotFound]; a schedule that was changed at the same time
// is a conflict.
func (o *Operator) Pause(ctx context.Context, name string, act deadletter.Act) (bool, error) {
	if err := act.Check(); err != nil {
		return false, err
	}
	s, err := o.store.Schedule(ctx, name)
	if err != nil || !s.pause() {
		return false, err
	}
	return o.change(ctx, s, entry(ActPause, act, name, ""))
}

// Resume resumes a paused schedule, from now: occurrences planned in the meantime are left out and
// not counted. It returns false if it is not paused. Errors are those of [Operator.Pause].
func (o *Operator) Resume(ctx context.Context, name string, act deadletter.Act) (bool, error) {
	if err := act.Check(); err != nil {
		return false, err
	}
	s, err := o.store.Schedule(ctx, name)
	if err != nil {
		return false, err
	}
	now, err := o.store.ScheduleTime(ctx)
	if err != nil {
		return false, err
	}
	if resumed, err := s.resume(now); err != nil || !resumed {
		return false, err
	}
	return o.change(ctx, s, entry(ActResume, act, name, ""))
}

func (o *Operator) change(ctx context.Context, s State, a deadletter.Entry) (bool, error) {
	changed, err := o.store.ChangeSchedule(ctx, s, a)
	if err == nil && !changed {
		err = waybill.ConflictError(errors.New("schedule: it was changed at the same time"))
	}
	return changed, err
}

// RunNow schedules the message of a recurring schedule for now, whatever the schedule's status
// is, and returns the id, which is made of the name and the time. A relay moves it into the outbox
// at its next poll. The schedule itself is not changed. An unknown name is
// [waybill.ErrNotFound].
func (o *Operator) RunNow(ctx context.Context, name string, act deadletter.Act) (id string, err error) {
	if err := act.Check(); err != nil {
		return "", err
	}
	s, err := o.store.Schedule(ctx, name)
	if err != nil {
		return "", err
	}
	now, err := o.store.ScheduleTime(ctx)
	if err != nil {
		return "", err
	}
	m := s.byHand(now)
	m.DeliverAt = now
	added, err := o.store.ScheduleMessage(ctx, &m, entry(ActRun, act, name, m.ID))
	if err == nil && !added {
		err = waybill.ConflictError(ErrExists)
	}
	if err != nil {
		return "", err
	}
	o.observer.Observe(ctx, observe.Event{Op: observe.OpEnqueue, Topic: m.Address(), Type: m.Type, IDs: []string{m.ID}, Count: 1})
	return m.ID, nil
}

// Remove removes a recurring schedule. It returns false if there is none. Messages that it has
// enqueued are still published. A program that puts the schedule at its start recreates it.
func (o *Operator) Remove(ctx context.Context, name string, act deadletter.Act) (bool, error) {
	if err := act.Check(); err != nil {
		return false, err
	}
	return o.store.DropSchedule(ctx, name, entry(ActRemove, act, name, ""))
}

// Cancel removes a message that [Scheduler.At] or [Scheduler.After] keeps. It returns false if
// there is none: it was moved into the outbox, was cancelled, or never was.
func (o *Operator) Cancel(ctx context.Context, id string, act deadletter.Act) (bool, error) {
	if err := act.Check(); err != nil {
		return false, err
	}
	return o.store.DropScheduled(ctx, id, entry(ActCancel, act, "", id))
}

func entry(action deadletter.Action, act deadletter.Act, name, id string) deadletter.Entry {
	return deadletter.Entry{Action: action, By: act.By, Why: act.Why, MessageID: id, Detail: name}
}
