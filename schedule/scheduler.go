package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/outbox"
)

// ErrExists reports that a message is already scheduled under the id. Nothing was stored;
// [Scheduler.Reschedule] moves the existing one.
var ErrExists = waybill.PermanentError(waybill.ReasonDuplicateID, errors.New("schedule: a message with this id is scheduled already"))

// Config configures a [Scheduler].
type Config struct {
	// Source names the service in messages that name no source themselves; see
	// [outbox.Config]. Required.
	Source string

	// Observer receives scheduled messages, as [observe.OpEnqueue]. Optional;
	// the default logs to slog.Default.
	Observer observe.Observer
}

// Scheduler keeps messages for later. It is safe for concurrent use. A method whose tx is nil stores
// nothing, and returns an [*waybill.InvalidError] that names it.
type Scheduler[Tx any] struct {
	store  Store[Tx]
	writer *outbox.Writer[Tx]
}

// NewScheduler returns a scheduler for the transactions that store takes. The error is an
// [*waybill.InvalidError] that names what is missing or wrong.
func NewScheduler[Tx any](store Store[Tx], cfg Config) (*Scheduler[Tx], error) {
	if store == nil {
		return nil, invalid("store", "is required")
	}
	writer, err := outbox.NewWriter[Tx](store, outbox.Config{Source: cfg.Source, Observer: cfg.Observer})
	if err != nil {
		return nil, err
	}
	return &Scheduler[Tx]{store: store, writer: writer}, nil
}

// At keeps msg in tx until a time, to the microsecond, which must be in the future by the
// database's clock. It returns the message's id, which is the handle for [Scheduler.Cancel] and
// [Scheduler.Reschedule]: msg.ID, or a new one.
//
// The message is completed and checked as [outbox.Writer.Enqueue] does; msg.DeliverAt must be
// empty. The error is [ErrExists] if one is scheduled under this id, and an
// [*waybill.InvalidError] for what is wrong with a field. If a message with the id is in the outbox
// when this one is due, this one becomes a dead letter, reason duplicate_id.
func (s *Scheduler[Tx]) At(ctx context.Context, tx Tx, msg waybill.Message, at time.Time) (id string, err error) {
	now, err := s.store.Now(ctx, tx)
	if err != nil {
		return "", fmt.Errorf("schedule message: %w", err)
	}
	if err := future(at, now); err != nil {
		return "", err
	}
	return s.add(ctx, tx, msg, at)
}

// After is [Scheduler.At] with the time after a delay by the database's clock. The delay must be
// positive.
func (s *Scheduler[Tx]) After(ctx context.Context, tx Tx, msg waybill.Message, delay time.Duration) (id string, err error) {
	if delay <= 0 {
		return "", invalid("delay", fmt.Sprintf("is %v, it must be positive", delay))
	}
	now, err := s.store.Now(ctx, tx)
	if err != nil {
		return "", fmt.Errorf("schedule message: %w", err)
	}
	return s.add(ctx, tx, msg, now.Add(delay))
}

func future(at, now time.Time) error {
	if !at.After(now) {
		return invalid("at", "is not in the future, by the database's clock")
	}
	return nil
}

func (s *Scheduler[Tx]) add(ctx context.Context, tx Tx, msg waybill.Message, at time.Time) (id string, err error) {
	if !msg.DeliverAt.IsZero() {
		return "", invalid("DeliverAt", "is set; the scheduler sets it")
	}
	msg.DeliverAt = at.Round(time.Microsecond)
	prepared, err := s.writer.Prepare(ctx, msg)
	if err != nil {
		return "", err
	}
	m := &prepared.Messages[0]
	isNew, err := s.store.AddScheduled(ctx, tx, m)
	if err != nil {
		return "", fmt.Errorf("schedule message: %w", err)
	}
	if !isNew {
		return "", ErrExists
	}
	prepared.Stored([]bool{true})
	return m.ID, nil
}

// Cancel removes a message that [Scheduler.At] or [Scheduler.After] keeps. It returns false if
// there is none: it was moved into the outbox, was cancelled, or never existed. Until tx ends, a
// relay that is to move the message waits or skips it.
func (s *Scheduler[Tx]) Cancel(ctx context.Context, tx Tx, id string) (bool, error) {
	return s.store.CancelScheduled(ctx, tx, id)
}

// Reschedule changes the time of a scheduled message to another one, which must be in the future by
// the database's clock. It returns false as [Scheduler.Cancel] does. A message that expires before
// becomes a dead letter then.
func (s *Scheduler[Tx]) Reschedule(ctx context.Context, tx Tx, id string, at time.Time) (bool, error) {
	now, err := s.store.Now(ctx, tx)
	if err != nil {
		return false, fmt.Errorf("reschedule message: %w", err)
	}
	if err := future(at, now); err != nil {
		return false, err
	}
	if at.Year() > maxYear {
		return false, invalid("at", "must be before the year 10000")
	}
	return s.store.MoveScheduled(ctx, tx, id, at.Round(time.Microsecond))
}
