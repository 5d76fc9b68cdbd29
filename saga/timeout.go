package saga

import (
	"context"
	"fmt"
	"time"
)

// timeoutType is the type of the messages that deliver a timeout to its instance.
const timeoutType = "waybill.saga.timeout"

// Timeout sets a timeout, or moves it if it is set: after the delay, by the database's clock, the
// rule of this name runs, once. It takes two statements. The error is an [*waybill.InvalidError]
// for a name without a rule and a delay that is not positive.
func (c *Context[Tx, D]) Timeout(ctx context.Context, name string, delay time.Duration) error {
	if c.saga.timeouts.rules[name] == nil {
		return invalid("Timeout", fmt.Sprintf("there is no rule for a timeout %q", name))
	}
	if delay <= 0 {
		return invalid("Timeout", fmt.Sprintf("has the delay %v, it must be positive", delay))
	}
	if moved, err := c.moveTimeout(ctx, name, delay); moved || err != nil {
		return err
	}
	return c.setTimeout(ctx, name, delay)
}

// moveTimeout returns false if the timeout is not set, or is already due.
func (c *Context[Tx, D]) moveTimeout(ctx context.Context, name string, delay time.Duration) (bool, error) {
	id, stands := c.in.Progress.Timeouts[name]
	if !stands {
		return false, nil
	}
	now, err := c.saga.store.Now(ctx, c.Tx)
	if err != nil {
		return false, fmt.Errorf("move timeout: %w", err)
	}
	return c.saga.store.MoveScheduled(ctx, c.Tx, id, now.Add(delay).Round(time.Microsecond))
}

// setTimeout schedules a timeout. An earlier one of this name that is already due becomes stale.
func (c *Context[Tx, D]) setTimeout(ctx context.Context, name string, delay time.Duration) error {
	m, err := call{ID: c.ID, Timeout: name}.message(timeoutType, c.in.Progress.Topic)
	if err != nil {
		return err
	}
	id, err := c.saga.scheduler.After(ctx, c.Tx, m, delay)
	if err != nil {
		return err
	}
	if c.in.Progress.Timeouts == nil {
		c.in.Progress.Timeouts = make(map[string]string)
	}
	c.in.Progress.Timeouts[name] = id
	return nil
}

// CancelTimeout cancels a timeout. It returns false if the timeout is not set. One that is already
// due does nothing when it arrives.
func (c *Context[Tx, D]) CancelTimeout(ctx context.Context, name string) (bool, error) {
	_, stands := c.in.Progress.Timeouts[name]
	return stands, c.cancelTimeout(ctx, name)
}

func (c *Context[Tx, D]) cancelTimeout(ctx context.Context, name string) error {
	id, stands := c.in.Progress.Timeouts[name]
	if !stands {
		return nil
	}
	delete(c.in.Progress.Timeouts, name)
	_, err := c.saga.store.CancelScheduled(ctx, c.Tx, id)
	return err
}

// takeTimeout runs the rule of a timeout, unless the timeout is stale, or the rule does not apply
// in the current state.
func (c *Context[Tx, D]) takeTimeout(ctx context.Context, name string) (bool, error) {
	if c.in.Progress.Timeouts[name] != c.message.ID {
		return false, nil
	}
	r := c.saga.timeouts.rules[name]
	switch {
	case r == nil: // a migration has dropped it
		return false, nil
	case !r.takes(c.in.State):
		return false, nil
	}
	delete(c.in.Progress.Timeouts, name)
	c.note = "timeout " + name
	return true, c.follow(ctx, r)
}
