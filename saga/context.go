package saga

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
)

// Context is an instance while a message changes it. It may be used by one goroutine, and not after
// the function that it was passed to has returned. The effects of its methods are stored together,
// if that function returns nil and the transaction commits.
type Context[Tx, D any] struct {
	Data *D   // the caller's data, stored after the function
	ID   ID   // not to be changed
	New  bool // the message starts the instance
	Tx   Tx   // of the consumer's inbox, for further statements

	saga     *Saga[Tx, D]
	in       Instance
	message  *waybill.Message
	from     string // state before
	note     string // for the log
	out      []waybill.Message
	complete bool  // Complete was called
	cause    error // of Compensate or Fail
	advance  bool  // the next step is due
}

// State returns the state of the instance, "" if it has none yet.
func (c *Context[Tx, D]) State() string { return c.in.State }

// Status returns the status of the instance; within [Saga.OnEnd], how it has ended.
func (c *Context[Tx, D]) Status() Status { return c.in.Status }

// Error returns why the instance is compensating, compensated or stuck, and "" otherwise.
func (c *Context[Tx, D]) Error() string { return c.in.Error }

// Become sets the state of the instance, at most 200 bytes.
func (c *Context[Tx, D]) Become(state string) { c.in.State = state }

// Publish enqueues msg for a topic. Key and Tenant default to those of the instance; the message
// being handled is its cause, as [waybill.WithMessage] says. All messages of a change are
// enqueued with one statement, after the function; one that is not valid fails the change then.
func (c *Context[Tx, D]) Publish(topic string, msg waybill.Message) {
	msg.Topic, msg.To = topic, ""
	c.out = append(c.out, c.own(msg))
}

// Send is [Context.Publish] to one destination.
func (c *Context[Tx, D]) Send(to string, msg waybill.Message) {
	msg.Topic, msg.To = "", to
	c.out = append(c.out, c.own(msg))
}

// Schedule keeps msg, which names its Topic or To, until a time; see schedule.Scheduler.At. Key and
// Tenant are filled in as by [Context.Publish]. It returns the id by which a scheduler can cancel
// or move it. The end of the instance cancels it, like a timeout; what [Saga.OnEnd] schedules is
// not cancelled.
//
// An instance remembers what it has scheduled until its end, but if there are more than a hundred
// messages only those whose time was less than a day before its latest change.
func (c *Context[Tx, D]) Schedule(ctx context.Context, msg waybill.Message, at time.Time) (id string, err error) {
	id, err = c.ScheduleDetached(ctx, msg, at)
	if err == nil && !c.in.Status.Ended() {
		c.in.Progress.remember(id, at, c.in.ChangedAt)
	}
	return id, err
}

// ScheduleDetached is [Context.Schedule] for a message that the end of the instance does not cancel.
func (c *Context[Tx, D]) ScheduleDetached(ctx context.Context, msg waybill.Message, at time.Time) (id string, err error) {
	return c.saga.scheduler.At(ctx, c.Tx, c.own(msg), at)
}

// own fills in the fields of a message that default to the instance's.
func (c *Context[Tx, D]) own(msg waybill.Message) waybill.Message {
	if msg.Key == "" {
		msg.Key = c.ID.Key
	}
	if msg.Tenant == "" {
		msg.Tenant = c.ID.Tenant
	}
	return msg
}

// Complete ends the instance. It has no effect on one that is compensating or stuck.
func (c *Context[Tx, D]) Complete() { c.complete = true }

// Compensate makes the instance compensate the completed steps, the last first; the error is kept
// with it. A waiting step is compensated too, because it may have been done. An instance without
// completed steps ends at once, as compensated. It does nothing if the instance is already
// compensating. cause must not be nil.
func (c *Context[Tx, D]) Compensate(cause error) { c.cause = cause }

// Done says that the waiting step is done. It returns false, and does nothing, if the instance does
// not wait for this step: the answer is late, or a duplicate.
func (c *Context[Tx, D]) Done(ctx context.Context, step string) (bool, error) {
	if !c.awaits(step) {
		c.saga.ignore(ctx, c.message, ignoreStale)
		return false, nil
	}
	if err := c.stopWaiting(ctx); err != nil {
		return false, err
	}
	c.in.Progress.Done++
	c.advance = true
	return true, nil
}

// Fail says that the waiting step was not done, and will not be: the instance compensates those
// before it. The result is that of [Context.Done]. cause must not be nil.
func (c *Context[Tx, D]) Fail(ctx context.Context, step string, cause error) (bool, error) {
	if !c.awaits(step) {
		c.saga.ignore(ctx, c.message, ignoreStale)
		return false, nil
	}
	if err := c.stopWaiting(ctx); err != nil {
		return false, err
	}
	c.Compensate(cause)
	return true, nil
}

func (c *Context[Tx, D]) awaits(step string) bool {
	p := c.in.Progress
	return p.Waiting && c.saga.steps[p.Done].Name == step
}
