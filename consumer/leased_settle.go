package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/internal/backoff"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/observe"
)

// settleBackoff is the first wait before a call to a lease store that was not answered is repeated;
// it is doubled up to outageWait.
const settleBackoff = 50 * time.Millisecond

// settleProcessed marks a message whose handler has succeeded.
func (c *Leased) settleProcessed(work context.Context, m leasedMessage) verdict {
	status, err := c.tell(work, func(ctx context.Context) (lease.Status, error) {
		return c.store.MarkProcessed(ctx, m.lease)
	})
	switch {
	case err != nil:
		return c.unavailable(work, m.Message, fmt.Errorf("mark as processed: %w", err))
	case status == lease.Processed:
		return done
	case status == lease.Unknown: // a redelivery would repeat the effect
		c.reportLost(work, m.Message, errForgotten)
		return done
	}
	return c.lost(work, m.Message)
}

// settleFailed releases the key of a message that is to be retried, or dead-letters the message.
// The store also keeps the wait until the next attempt: the message may be delivered early, here or
// elsewhere.
func (c *Leased) settleFailed(work context.Context, m leasedMessage, f failure) verdict {
	switch kind := waybill.KindOf(f.cause); {
	case kind == waybill.Unavailable || kind == waybill.Conflict:
		c.giveBack(work, m, lease.Release{Uncounted: true})
		return c.unavailable(work, m.Message, f.cause)
	case kind == waybill.Permanent || backoff.Exhausted(c.cfg.Retry, m.attempts):
		return c.settleDead(work, m, f, m.attempts)
	}
	delay := backoff.Delay(c.cfg.Retry, m.attempts)
	c.giveBack(work, m, lease.Release{Wait: min(delay, lease.MaxTTL)})
	return c.retry(work, m.Message, m.attempts, delay, f.cause)
}

// settleDead stores the dead letter of a message and marks the message.
func (c *Leased) settleDead(work context.Context, m leasedMessage, f failure, attempts int) verdict {
	if v := c.bury(work, m.rec, m.Message, f, attempts); v.again {
		c.giveBack(work, m, lease.Release{Uncounted: true})
		return v
	}
	return c.settleProcessed(work, m)
}

// giveBack releases a key. One that cannot be released is free when its lease expires.
func (c *Leased) giveBack(work context.Context, m leasedMessage, r lease.Release) {
	_, err := c.tell(work, func(ctx context.Context) (lease.Status, error) {
		return c.store.ReleaseLease(ctx, m.lease, r)
	})
	c.reportSettle(work, err)
}

// tell repeats a call to the store until it answers, or until work ends.
func (c *Leased) tell(work context.Context, it func(ctx context.Context) (lease.Status, error)) (lease.Status, error) {
	for wait := settleBackoff; ; wait = min(2*wait, outageWait) {
		settle, cancel := context.WithTimeout(context.WithoutCancel(work), settleTimeout)
		status, err := it(settle)
		cancel()
		if err == nil || waybill.IsPermanent(err) || work.Err() != nil {
			return status, err
		}
		c.reportSettle(work, err)
		loop.Sleep(work, wait)
	}
}

// lost leaves a message to the consumer that has leased it since: it is redelivered, and skipped if
// that consumer has processed it.
func (c *Leased) lost(ctx context.Context, m *waybill.Message) verdict {
	c.reportLost(ctx, m, errLeaseLost)
	return verdict{again: true, after: outageWait, uncounted: true}
}

func (c *Leased) reportLost(ctx context.Context, m *waybill.Message, err error) {
	c.observe(ctx, observe.Event{Op: observe.OpLeaseLost, Topic: m.Address(), Type: m.Type, IDs: []string{m.ID}, Count: 1, Err: err})
}

var errForgotten = errors.New("consumer: the store has forgotten the lease; a copy of the message would be handled again")
