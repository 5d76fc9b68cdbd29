package saga

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/observe"
)

// takeStep executes or compensates the next step, unless the message is stale.
func (c *Context[Tx, D]) takeStep(ctx context.Context, turn int64) (bool, error) {
	p := &c.in.Progress
	if turn != p.Turn || p.Waiting || c.in.Status == Stuck {
		return false, nil
	}
	c.advance = true
	c.passBack()
	given, last := consumer.GivenUpFrom(ctx)
	switch {
	case p.Back && p.Done == 0 || !p.Back && p.Done >= len(c.saga.steps): // nothing is left
		return true, nil
	case p.Back && last:
		c.getStuck(given.Err)
		return true, nil
	case p.Back:
		return true, c.undo(ctx)
	case last:
		c.note = "step " + c.saga.steps[p.Done].Name + " failed"
		c.Compensate(errors.New(given.Err))
		return true, nil
	}
	return true, c.execute(ctx)
}

// execute executes the next step.
func (c *Context[Tx, D]) execute(ctx context.Context) error {
	p := &c.in.Progress
	step := &c.saga.steps[p.Done]
	c.note, c.in.State, p.Waiting = "step "+step.Name, step.Name, step.Wait
	if err := step.Execute(ctx, c); err != nil {
		return err
	}
	switch {
	case !step.Wait:
		p.Done++
	case c.waiting() && step.Timeout > 0:
		return c.setTimeout(ctx, step.timeoutName(), step.Timeout)
	}
	return nil
}

// undo compensates the last completed step.
func (c *Context[Tx, D]) undo(ctx context.Context) error {
	p := &c.in.Progress
	step := &c.saga.steps[p.Done-1]
	c.note, c.in.State = "undo "+step.Name, step.Name+undone
	if err := step.Compensate(ctx, c); err != nil {
		return err
	}
	p.Done--
	return nil
}

// passBack skips completed steps without a compensation.
func (c *Context[Tx, D]) passBack() {
	p := &c.in.Progress
	for p.Back && p.Done > 0 && c.saga.steps[p.Done-1].Compensate == nil {
		p.Done--
	}
}

// getStuck marks the instance as needing a person.
func (c *Context[Tx, D]) getStuck(why string) {
	c.advance = false
	c.note = "step " + c.saga.steps[c.in.Progress.Done-1].Name + " could not be undone"
	c.in.Status, c.in.Error = Stuck, observe.ErrorText(errors.New(why))
}

// late returns the function for the timeout of a step.
func (s *Saga[Tx, D]) late(step *Step[Tx, D]) Do[Tx, D] {
	return func(_ context.Context, c *Context[Tx, D], _ *waybill.Message) error {
		c.Compensate(fmt.Errorf("step %s: no answer within %v", step.Name, step.Timeout))
		return nil
	}
}

// settle continues after the message has changed the instance: with the next step, or the end.
func (c *Context[Tx, D]) settle(ctx context.Context) error {
	switch p := &c.in.Progress; {
	case c.complete && !p.Back:
		c.in.Status = Completed
	case c.cause != nil && !p.Back:
		if err := c.turnBack(ctx); err != nil {
			return err
		}
	case c.advance && !c.waiting(), c.New && len(c.saga.steps) > 0:
		if err := c.next(); err != nil {
			return err
		}
	}
	if !c.in.Status.Ended() {
		return nil
	}
	return c.end(ctx)
}

// waiting reports whether a step waits for its answer.
func (c *Context[Tx, D]) waiting() bool { return c.in.Progress.Waiting }

// turnBack begins the compensation.
func (c *Context[Tx, D]) turnBack(ctx context.Context) error {
	p := &c.in.Progress
	if p.Waiting { // it may have been done
		if err := c.stopWaiting(ctx); err != nil {
			return err
		}
		p.Done++
	}
	p.Back = true
	c.in.Status, c.in.Error = Compensating, observe.ErrorText(c.cause)
	return c.next()
}

// stopWaiting ends the wait of a step, and its timeout.
func (c *Context[Tx, D]) stopWaiting(ctx context.Context) error {
	p := &c.in.Progress
	p.Waiting = false
	return c.cancelTimeout(ctx, c.saga.steps[p.Done].timeoutName())
}

// next sends the message for the next step, or ends the instance if there is none.
func (c *Context[Tx, D]) next() error {
	p := &c.in.Progress
	c.passBack()
	switch {
	case p.Back && p.Done == 0:
		c.in.Status = Compensated
		return nil
	case !p.Back && p.Done >= len(c.saga.steps):
		c.in.Status = Completed
		return nil
	}
	p.Turn++
	m, err := call{ID: c.ID, Turn: p.Turn}.message(stepType, p.Topic)
	c.out = append(c.out, m)
	return err
}

// end cancels what the instance has scheduled, runs OnEnd, and cancels pending timeouts.
func (c *Context[Tx, D]) end(ctx context.Context) error {
	for _, id := range slices.Sorted(maps.Keys(c.in.Progress.Scheduled)) { // in one order: they are locked
		if _, err := c.saga.store.CancelScheduled(ctx, c.Tx, id); err != nil {
			return err
		}
	}
	c.in.Progress.Scheduled = nil
	if c.saga.onEnd != nil {
		if err := c.saga.onEnd(ctx, c); err != nil {
			return err
		}
	}
	for name := range c.in.Progress.Timeouts {
		if err := c.cancelTimeout(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
