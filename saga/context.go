package saga

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
)

// Context is an instance while a message changes it. It is used by one goroutine, and not after
// the function that it was passed to has returned. What its methods do is stored together, if that
// function returns nil and the transaction commits.
type Context[Tx, D any] struct {
	Data *D   // the caller's own, stored after the function
	ID   ID   // not to be changed
	New  bool // the message begins the instance
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

// Status returns where the instance stands. Within [Saga.OnEnd] it says how it has ended.
func (c *Context[Tx, D]) Status() Status { return c.in.Status }

// Error returns why the instance is compensating, compensated or stuck, and "" else.
func (c *Context[Tx, D]) Error() string { return c.in.Error }

// Become leads the instance to a state, at most 200 bytes.
func (c *Context[Tx, D]) Become(state string) { c.in.State = state }

// Publish enqueues msg for a topic. Key and Tenant are the instance's if they are empty; the
// message that is handled is its cause, as [waybill.WithMessage] says. All messages of a change are
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
// or move it. The end of the instance cancels it, as it does a timeout; what [Saga.OnEnd] schedules
// comes after the end and stays.
//
// An instance remembers what it has scheduled until the end, but of more than a hundred messages
// only those whose time was less than a day before its latest change.
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

// own fills in what a message has of the instance.
func (c *Context[Tx, D]) own(msg waybill.Message) waybill.Message {
	if msg.Key == "" {
		msg.Key = c.ID.Key
	}
	if msg.Tenant == "" {
		msg.Tenant = c.ID.Tenant
	}
	return msg
}

// Complete ends the instance. One that is compensating or stuck goes on with that.
func (c *Context[Tx, D]) Complete() { c.complete = true }

// Compensate makes the instance undo the steps that are done, the last first; the error is kept
// with it. A step that waits is undone too, for it may have been done. An instance without steps
// that are done ends at once, as compensated. It does nothing if the instance is on its way back
// already. cause must not be nil.
func (c *Context[Tx, D]) Compensate(cause error) { c.cause = cause }

// Done says that the step that waits is done. It returns false, and does nothing, if the instance
// does not wait for this step: the answer is late, or has come before.
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

// Fail says that the step that waits was not done, and will not be: the instance undoes those
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
