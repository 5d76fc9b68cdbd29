package consumer

import (
	"context"
	"errors"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/loop"
)

// A message that ends its process leaves no error behind. So the start of an attempt at a
// redelivered message, or at a requeued dead letter, is written down before the handler runs,
// and taken back when it has come back. A start that stays makes the message a suspect: it, or what was handled beside
// it, has ended the process. From then on it runs alone, and is a dead letter when it has not
// come back from that either.

// poisonStarts is how many starts without an end make a message poison. All but the first
// are made while it runs alone: one could be chance, as when somebody kills the process.
const poisonStarts = 3

// suspects has room for one: the process ends as a whole, so a suspect of one consumer does
// not run beside that of another.
var suspects = make(chan struct{}, 1)

// attemptAgain is attempt for a message of which the store may know something.
func (c *Consumer[Tx]) attemptAgain(ctx, work context.Context, rec inbox.Record, m *waybill.Message) verdict {
	past, err := c.box.FailedAttempts(work, rec.Key)
	switch {
	case err != nil:
		return c.unavailable(work, m, err)
	case past.Wait > 0: // it came too early, after a restart perhaps
		return c.putBack(work, m, past.Wait)
	case past.Starts >= poisonStarts:
		return c.poisoned(ctx, work, rec, m, &past)
	case past.Starts > 0:
		leave, alone := c.alone(ctx)
		defer leave()
		if !alone {
			return c.putBack(work, m, outageWait)
		}
	}
	rec.Retried = true
	err = c.box.SaveStarts(work, rec.Key, past.Starts+1)
	if errors.Is(err, inbox.ErrBusy) {
		return c.busy(work, m, err) // nothing was written, and its row is locked
	}
	var v verdict
	if err != nil {
		v = c.unavailable(work, m, err)
	} else {
		v = c.run(work, rec, m, &past)
	}
	if v.uncounted {
		c.takeBackStart(ctx, c.box, rec.Key)
	}
	return v
}

// poisonous is the error of a message that has ended its process so many times.
func poisonous(starts int) error {
	err := fmt.Errorf("the process ended each of the last %d times that the message was handled, at the end while nothing else was", starts)
	return waybill.PermanentError(waybill.ReasonPoison, err)
}

// starts is where an [inbox.Inbox] notes them.
type starts interface {
	SaveStarts(ctx context.Context, key inbox.Key, starts int) error
}

// takeBackStart notes that an attempt of which nothing else is written down has come back. An
// outage is waited out: a start that stayed would speak against the message.
func (c *receiver) takeBackStart(ctx context.Context, box starts, key inbox.Key) {
	for {
		settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		err := box.SaveStarts(settle, key, 0)
		cancel()
		if err == nil || ctx.Err() != nil {
			return
		}
		c.reportSettle(ctx, err)
		loop.Sleep(ctx, outageWait)
	}
}

// alone waits until the caller, who has one place among the handlers, has all of them, and is
// the only one of this process. It gives up when ctx ends, or after HandlerTimeout: a handler
// that does not return must not hold up the others too. leave must be called in any case; the
// caller has its one place then.
func (c *receiver) alone(ctx context.Context) (leave func(), ok bool) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.HandlerTimeout)
	defer cancel()
	c.releaseHandler() // two who wait for each other's place would wait for ever
	select {
	case suspects <- struct{}{}:
	case <-ctx.Done():
		return func() { c.handlers <- struct{}{} }, false
	}
	places := 0
	for places < cap(c.handlers) && c.acquire(ctx) {
		places++
	}
	return func() {
		<-suspects
		for ; places > 1; places-- {
			c.releaseHandler()
		}
		if places == 0 {
			c.handlers <- struct{}{}
		}
	}, places == cap(c.handlers)
}
