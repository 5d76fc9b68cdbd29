package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/loop"
)

// errSilent is the cause of a cancelled call to the store.
var errSilent = errors.New("consumer: the store has not answered")

// ask runs a call to the store, for at most StoreTimeout.
func (c *receiver) ask(ctx context.Context, call func(ctx context.Context) error) error {
	return c.askAround(ctx, func(ctx context.Context, _ *stopwatch) error { return call(ctx) })
}

// askAround is ask for a call that runs the handler, whose time does not count.
func (c *receiver) askAround(ctx context.Context, call func(ctx context.Context, w *stopwatch) error) error {
	asking, end := context.WithCancelCause(ctx)
	defer end(nil)
	w := &stopwatch{c: c, limit: c.cfg.StoreTimeout}
	w.timer = time.AfterFunc(w.limit, func() { end(errSilent) })
	defer w.timer.Stop()
	err := call(asking, w)
	if err == nil {
		c.hear()
	}
	if err == nil || context.Cause(asking) != errSilent {
		return err
	}
	err = waybill.UnavailableError(fmt.Errorf("%w for %v: %w", errSilent, w.limit, err))
	if !c.heard() && c.probe(ctx) != nil { // else it was one connection, or one row
		c.pause(err)
	}
	return err
}

// hear records that the store has answered.
func (c *receiver) hear() { c.answered.Store(int64(time.Since(c.made))) }

// heard reports whether the store has answered any call lately, or handlers are running: a call may
// have waited for a connection that they use. If the store is silent they end without an answer.
func (c *receiver) heard() bool {
	return c.inside.Load() > 0 || time.Since(c.made)-time.Duration(c.answered.Load()) < c.cfg.StoreTimeout
}

// stopwatch ends a call to the store that takes too long.
type stopwatch struct {
	c     *receiver
	limit time.Duration
	timer *time.Timer
}

// outside runs fn, whose time does not count.
func (w *stopwatch) outside(fn func() error) error {
	if !w.timer.Stop() {
		return errSilent // the call has ended
	}
	w.c.hear()
	w.c.inside.Add(1)
	defer func() {
		w.c.inside.Add(-1)
		w.timer.Reset(w.limit)
	}()
	return fn()
}

const maxProbes = 16

// probe asks the store over as many connections as handlers use, and returns an error if one of
// them does not answer.
func (c *receiver) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.StoreTimeout)
	defer cancel()
	errs := make([]error, min(c.cfg.Concurrency, maxProbes))
	var asked sync.WaitGroup
	for i := range errs {
		asked.Go(func() { errs[i] = c.ping(ctx) })
	}
	asked.Wait()
	return errors.Join(errs...)
}

// awaitStore waits until the store answers, and returns false if ctx ends before.
func (c *receiver) awaitStore(ctx context.Context) bool {
	for ctx.Err() == nil && c.probe(ctx) != nil {
		loop.Sleep(ctx, outageWait)
	}
	return ctx.Err() == nil
}

// timedInbox is an inbox whose calls have a timeout.
type timedInbox[Tx any] struct {
	box contract.Inbox[Tx]
	c   *receiver
}

var _ contract.Inbox[any] = timedInbox[any]{}

func (t timedInbox[Tx]) ProcessOnce(ctx context.Context, rec inbox.Record, fn func(ctx context.Context, tx Tx) error) (outcome inbox.Outcome, err error) {
	err = t.c.askAround(ctx, func(ctx context.Context, w *stopwatch) (err error) {
		outcome, err = t.box.ProcessOnce(ctx, rec, func(ctx context.Context, tx Tx) error {
			return w.outside(func() error { return fn(ctx, tx) })
		})
		return err
	})
	return outcome, err
}

func (t timedInbox[Tx]) FailedAttempts(ctx context.Context, key inbox.Key) (a contract.Attempts, err error) {
	err = t.c.ask(ctx, func(ctx context.Context) (err error) {
		a, err = t.box.FailedAttempts(ctx, key)
		return err
	})
	return a, err
}

func (t timedInbox[Tx]) SaveAttempt(ctx context.Context, key inbox.Key, a contract.FailedAttempt) error {
	return t.c.ask(ctx, func(ctx context.Context) error { return t.box.SaveAttempt(ctx, key, a) })
}

func (t timedInbox[Tx]) SaveStarts(ctx context.Context, key inbox.Key, starts int) error {
	return t.c.ask(ctx, func(ctx context.Context) error { return t.box.SaveStarts(ctx, key, starts) })
}

func (t timedInbox[Tx]) BuryMessage(ctx context.Context, l inbox.Letter) (buried bool, err error) {
	return t.c.timedBury(t.box.BuryMessage)(ctx, l)
}

func (t timedInbox[Tx]) TakeRequeued(ctx context.Context, consumer string, lease time.Duration) (r contract.Requeued, found bool, err error) {
	err = t.c.ask(ctx, func(ctx context.Context) (err error) {
		r, found, err = t.box.TakeRequeued(ctx, consumer, lease)
		return err
	})
	return r, found, err
}

func (t timedInbox[Tx]) RunRequeued(ctx context.Context, r contract.Requeued, node string, fn func(ctx context.Context, tx Tx) error) (found bool, err error) {
	err = t.c.askAround(ctx, func(ctx context.Context, w *stopwatch) (err error) {
		found, err = t.box.RunRequeued(ctx, r, node, func(ctx context.Context, tx Tx) error {
			return w.outside(func() error { return fn(ctx, tx) })
		})
		return err
	})
	return found, err
}

// timedBury is bury with a timeout.
func (c *receiver) timedBury(bury func(ctx context.Context, l inbox.Letter) (bool, error)) func(ctx context.Context, l inbox.Letter) (bool, error) {
	return func(ctx context.Context, l inbox.Letter) (buried bool, err error) {
		err = c.ask(ctx, func(ctx context.Context) (err error) {
			buried, err = bury(ctx, l)
			return err
		})
		return buried, err
	}
}

// processBatch is ProcessBatch with a timeout.
func (c *Consumer[Tx]) processBatch(ctx context.Context, recs []inbox.Record, fn func(ctx context.Context, tx Tx, fresh []int) error) (outcomes []inbox.Outcome, err error) {
	err = c.askAround(ctx, func(ctx context.Context, w *stopwatch) (err error) {
		outcomes, err = c.batcher.ProcessBatch(ctx, recs, func(ctx context.Context, tx Tx, fresh []int) error {
			return w.outside(func() error { return fn(ctx, tx, fresh) })
		})
		return err
	})
	return outcomes, err
}
