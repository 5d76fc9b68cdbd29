package consumer

import (
	"context"
	"errors"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/loop"
)

// A message that kills its process leaves no error behind. So the start of an attempt at a redelivered message,
// or at a requeued dead letter, is persisted before the handler runs, and removed when the handler has
// returned. A start that remains makes the message a suspect: it, or a message handled at the same time, has
// killed the process. From then on it runs while nothing else does, and becomes a dead letter if the handler
// does not return from that either.

// poisonStarts is how many unfinished attempts make a message poison. All but the first are made
// while nothing else runs: one could be chance, as when somebody kills the process.
const poisonStarts = 3

// suspects has room for one: the process ends as a whole, so suspects of different consumers do not
// run at the same time.
var suspects = make(chan struct{}, 1)

// attemptAgain is attempt for a message that may have attempts in the store.
func (c *Consumer[Tx]) attemptAgain(ctx, work context.Context, rec inbox.Record, m *waybill.Message) verdict {
	past, err := c.box.FailedAttempts(work, rec.Key)
	switch {
	case err != nil:
		return c.unavailable(work, m, err)
	case past.Wait > 0: // it was delivered too early, perhaps after a restart
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

// poisonous is the error of a message that has killed its process the given number of times.
func poisonous(starts int) error {
	err := fmt.Errorf("the process ended each of the last %d times that the message was handled, at the end while nothing else was", starts)
	return waybill.PermanentError(waybill.ReasonPoison, err)
}

// starts is the part of a [contract.Inbox] that keeps starts.
type starts interface {
	SaveStarts(ctx context.Context, key inbox.Key, starts int) error
}

// takeBackStart records that an attempt about which nothing else is persisted has returned. An
// outage is waited out: a start that remained would make the message a suspect.
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

// alone waits until the caller, which holds one handler slot, holds all of them, and no other
// suspect runs in this process. It stops waiting when ctx ends, or after HandlerTimeout: a handler
// that does not return must not block the others too. leave must be called in any case; it leaves
// the caller its one slot.
func (c *receiver) alone(ctx context.Context) (leave func(), ok bool) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.HandlerTimeout)
	defer cancel()
	c.releaseHandler() // two callers waiting for each other's slot would deadlock
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
