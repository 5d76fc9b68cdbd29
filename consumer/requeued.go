package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/observe"
)

type requeuedKey struct{}

// Requeued reports whether the message handled under ctx is a requeued dead letter.
func Requeued(ctx context.Context) bool { return ctx.Value(requeuedKey{}) != nil }

// requeuer handles the dead letters of a consumer that were requeued in box.
type requeuer[Tx any] struct {
	*receiver
	box     timedInbox[Tx]
	handler Handler[Tx]
	rounds  *loop.Loop
}

func newRequeuer[Tx any](c *receiver, box contract.Inbox[Tx], h Handler[Tx]) *requeuer[Tx] {
	return &requeuer[Tx]{receiver: c, box: timedInbox[Tx]{box, c}, handler: h, rounds: &loop.Loop{Name: "consumer " + c.name + " requeue", Observer: c.cfg.Observer}}
}

func (c *requeuer[Tx]) run(ctx, work context.Context) {
	c.rounds.Run(ctx, func(ctx context.Context) error { return c.requeueRound(ctx, work) })
}

// health allows for the time to get a slot, to wait until nothing else runs, and to run.
func (c *requeuer[Tx]) health() error {
	return c.rounds.Health(max(3*c.cfg.RequeueInterval, 3*c.cfg.HandlerTimeout+c.cfg.RequeueInterval))
}

// requeueRound handles one requeued dead letter of this consumer, and waits for one if there is
// none. It also waits if the letter met an outage: the next one would meet it, too. A letter in
// flight outlives ctx until work ends.
func (c *requeuer[Tx]) requeueRound(ctx, work context.Context) error {
	if !c.acquire(ctx) {
		return nil
	}
	wait, err := c.runNext(ctx, work)
	c.releaseHandler()
	switch {
	case errors.Is(err, errNoneRequeued):
		c.await(ctx)
		return nil
	case err == nil && wait > 0:
		loop.Sleep(ctx, wait)
	}
	return err
}

// requeueWaiter is an inbox that wakes a consumer when one of its dead letters may be run.
type requeueWaiter interface {
	// AwaitRequeued returns when there may be a requeued dead letter to take, or when ctx is done.
	AwaitRequeued(ctx context.Context, consumer string)
}

// await waits for the next round, or until there is a requeued letter if the inbox reports that.
func (c *requeuer[Tx]) await(ctx context.Context) {
	wait := c.cfg.RequeueInterval
	box, ok := c.box.box.(requeueWaiter)
	if !ok {
		loop.Sleep(ctx, wait)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	box.AwaitRequeued(ctx, c.name)
}

var errNoneRequeued = errors.New("no dead letter is requeued")

// runNext takes a requeued letter and runs it. It returns how long to wait before the next one, or
// errNoneRequeued. Its start is persisted, as for a redelivery: the message may have killed the
// process before it was dead-lettered.
func (c *requeuer[Tx]) runNext(ctx, work context.Context) (wait time.Duration, err error) {
	lease := 2 * c.cfg.HandlerTimeout // to wait until nothing else runs, and to start
	r, found, err := c.box.TakeRequeued(ctx, c.name, lease)
	switch {
	case err != nil:
		return 0, err
	case !found:
		return 0, errNoneRequeued
	}
	past, err := c.box.FailedAttempts(work, r.Key)
	switch {
	case err != nil:
		return 0, err
	case past.Starts >= poisonStarts:
		return c.runTaken(ctx, work, r, func(context.Context, Tx) error { return poisonous(past.Starts) })
	case past.Starts > 0:
		leave, alone := c.alone(ctx)
		defer leave()
		if !alone {
			c.putBack(work, &r.Message, lease)
			return 0, nil
		}
	}
	if err := c.box.SaveStarts(work, r.Key, past.Starts+1); err != nil {
		c.takeBackStart(ctx, c.box, r.Key)
		return 0, err
	}
	return c.runTaken(ctx, work, r, func(ctx context.Context, tx Tx) error {
		ctx = context.WithValue(ctx, requeuedKey{}, true)
		return c.call(ctx, &r.Message, func(ctx context.Context) error { return c.handler(ctx, tx, &r.Message) })
	})
}

// runTaken runs fn for a letter. An error of fn is no error of the loop; after an outage or a
// conflict the store keeps the letter requeued, and the wait is that of a delivery.
func (c *requeuer[Tx]) runTaken(ctx, work context.Context, r contract.Requeued, fn func(ctx context.Context, tx Tx) error) (wait time.Duration, err error) {
	found, err := c.box.RunRequeued(work, r, c.cfg.Node, fn)
	if err != nil {
		c.takeBackStart(ctx, c.box, r.Key) // the store may not have been there to do so
	}
	if !found {
		return 0, err
	}
	c.observe(work, observe.Event{Op: observe.OpRequeue, Count: 1, Err: err})
	if waybill.IsUnavailable(err) || waybill.IsConflict(err) {
		return outageWait, nil
	}
	return 0, nil
}
