package consumer

import (
	"context"
	"errors"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/loop"
)

// period is a time in which deliveries are started: until a pause, or the end of Run. What was
// received in it and not started is then requeued.
type period struct {
	ctx  context.Context
	end  context.CancelCauseFunc
	take func(*held)
}

func (c *receiver) newPeriod(ctx, work context.Context) *period {
	p := &period{}
	p.ctx, p.end = context.WithCancelCause(ctx)
	p.take = func(d *held) { c.take(p.ctx, work, d) }
	c.periods.Lock()
	defer c.periods.Unlock()
	if c.lineUp != nil {
		p.take = c.lineUp(p.ctx, work)
	}
	c.current.Store(p)
	return p
}

// pause ends the period: nothing more is received or started until its cause is over.
func (c *receiver) pause(cause error) {
	if p := c.current.Load(); p != nil {
		p.end(cause)
	}
}

// resume waits until the cause of a pause is over, and returns false if ctx ends before.
func (c *receiver) resume(ctx context.Context, cause error) bool {
	if errors.Is(cause, errAllFail) {
		return c.breaker.rest(ctx, c)
	}
	return c.awaitStore(ctx)
}

// receiveAll receives until ctx ends.
func (c *receiver) receiveAll(ctx, work context.Context) {
	p := c.newPeriod(ctx, work)
	receive := &loop.Loop{Name: c.receiveLoop(), Observer: c.cfg.Observer}
	receive.Run(ctx, func(ctx context.Context) error {
		if cause := context.Cause(p.ctx); cause != nil {
			if !c.resume(ctx, cause) {
				return nil
			}
			p = c.newPeriod(ctx, work)
		}
		return c.receiveIn(p)
	})
	p.end(nil)
}

// singleActive reports whether another member of the group takes over when a subscription ends.
func (c *receiver) singleActive() bool {
	s, is := c.sub.(contract.SingleActive)
	return is && s.SingleActive()
}

// receiveIn receives in a period, until it or the subscription ends. A subscription that is full of
// deliveries of blocked keys is followed by one with room for others.
func (c *receiver) receiveIn(p *period) (err error) {
	c.receives.begin()
	defer func() { c.receives.end(err) }()
	for {
		sub, end := context.WithCancel(p.ctx)
		prefetch := c.cfg.Prefetch
		if !c.singleActive() {
			prefetch = c.stalls.open(prefetch, end)
		}
		err = c.subscribe(sub, prefetch, func(d contract.Delivery) {
			c.receives.delivers()
			p.take(c.held.add(d))
		})
		replaced := sub.Err() != nil && p.ctx.Err() == nil
		end()
		if !replaced || err != nil {
			break
		}
	}
	if cause := context.Cause(p.ctx); cause != context.Canceled { // which is the end of Run
		err = errors.Join(err, cause)
	}
	return err
}
