package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/backoff"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/observe"
)

// GivenUp says why a message gets its final attempt, see [Config.GiveUp].
type GivenUp struct {
	// Reason is what the dead letter would have: that of the permanent error, poison, or
	// exhausted. A store does not keep it: it is exhausted where the final attempt is repeated.
	Reason waybill.Reason

	// Err is the error of the last attempt, as by [observe.ErrorText].
	Err string

	// Attempts is the number of failed attempts. Where the final attempt is repeated it is at least the
	// number that Config.Retry allows.
	Attempts int
}

type givenUpKey struct{}

// GivenUpFrom returns why the message handled under ctx gets its final attempt, and false if this
// is a usual attempt.
func GivenUpFrom(ctx context.Context) (GivenUp, bool) {
	g, ok := ctx.Value(givenUpKey{}).(GivenUp)
	return g, ok
}

// hasLastWord reports whether a message gets a final attempt. If that is not known it gets none,
// and the returned failure says so.
func (c *receiver) hasLastWord(m *waybill.Message, f failure) (bool, failure) {
	if c.cfg.GiveUp == nil {
		return false, f
	}
	has, err := loop.IsolateValue(func() (bool, error) { return c.cfg.GiveUp(m), nil })
	if err != nil {
		f.cause = errors.Join(f.cause, fmt.Errorf("consumer.Config.GiveUp: %w", err))
	}
	return has, f
}

// lastWordDue reports whether a redelivered message has only its final attempt left.
func (c *receiver) lastWordDue(m *waybill.Message, past *contract.Attempts) bool {
	if past == nil || !backoff.Exhausted(c.cfg.Retry, past.Count) {
		return false
	}
	has, _ := c.hasLastWord(m, failure{}) // if that is not known, the usual attempt is made and reports why
	return has
}

// giveUp makes the final attempt at a message, or makes it a dead letter. That its attempts are
// used up is persisted first: when it is redelivered it gets its final attempt again.
func (c *Consumer[Tx]) giveUp(ctx context.Context, rec inbox.Record, m *waybill.Message, f failure, attempts int) verdict {
	has, f := c.hasLastWord(m, f)
	if f.conflict || !has {
		return c.bury(ctx, rec, m, f, attempts)
	}
	given := GivenUp{Reason: reasonOf(f.cause), Err: observe.ErrorText(f.cause), Attempts: attempts}
	if err := c.saveUsedUp(ctx, rec, given, 0, f.took); err != nil {
		return c.unavailable(ctx, m, err)
	}
	return c.lastWord(ctx, rec, m, given)
}

// saveUsedUp stores that a message has only its final attempt left, which is due after wait.
func (c *Consumer[Tx]) saveUsedUp(ctx context.Context, rec inbox.Record, given GivenUp, wait, took time.Duration) error {
	all := 1 + max(c.cfg.Retry.MaxRetries, 0)
	return c.box.SaveAttempt(ctx, rec.Key, contract.FailedAttempt{
		Count: max(given.Attempts, all), Wait: wait, Error: given.Err, Node: c.cfg.Node, Took: took,
	})
}

// lastWord makes the final attempt at a message. It is not counted, and is repeated until it
// succeeds or fails permanently.
func (c *Consumer[Tx]) lastWord(ctx context.Context, rec inbox.Record, m *waybill.Message, given GivenUp) verdict {
	began := time.Now()
	rec.Retried = true
	outcome, err := c.process(context.WithValue(ctx, givenUpKey{}, given), rec, m)
	if err == nil {
		return c.succeeded(ctx, rec, m, outcome, nil)
	}
	switch waybill.KindOf(err) {
	case waybill.Unavailable, waybill.Conflict:
		return c.unavailable(ctx, m, err)
	case waybill.Permanent:
		return c.bury(ctx, rec, m, failure{cause: err, took: time.Since(began)}, given.Attempts)
	}
	delay := backoff.Delay(c.cfg.Retry, given.Attempts)
	if err := c.saveUsedUp(ctx, rec, given, delay, 0); err != nil {
		return c.unavailable(ctx, m, err)
	}
	return c.retry(ctx, m, given.Attempts, delay, err)
}

// poisoned handles a message that has killed its process too often. Its final attempt is made while
// nothing else runs; if that has killed the process there is no other.
func (c *Consumer[Tx]) poisoned(ctx, work context.Context, rec inbox.Record, m *waybill.Message, past *contract.Attempts) verdict {
	f, attempts := failure{cause: poisonous(past.Starts)}, past.Count+past.Starts
	has, f := c.hasLastWord(m, f)
	if backoff.Exhausted(c.cfg.Retry, past.Count) || !has {
		return c.bury(work, rec, m, f, attempts)
	}
	leave, alone := c.alone(ctx)
	defer leave()
	if !alone {
		return c.putBack(work, m, outageWait)
	}
	return c.giveUp(work, rec, m, f, attempts)
}

// reasonOf is the reason of the dead letter of a message that failed with err.
func reasonOf(err error) waybill.Reason {
	if waybill.IsPermanent(err) {
		return waybill.ReasonOf(err)
	}
	return waybill.ReasonExhausted
}
