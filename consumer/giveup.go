package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/loop"
)

// GivenUp says why a message has its last word, see [Config.GiveUp].
type GivenUp struct {
	// Reason is what the dead letter would have: that of the permanent error, poison, or
	// exhausted. A store does not keep it: it is exhausted where the last word comes again.
	Reason waybill.Reason

	// Err is the error of the last attempt, as by [waybill.ErrorText].
	Err string

	// Attempts is how many have failed. Where the last word comes again it is at least as many
	// as Config.Retry allows.
	Attempts int
}

type givenUpKey struct{}

// GivenUpFrom returns why the message that is handled under ctx was given up, and false if it
// was not: the handler is to do its usual work then.
func GivenUpFrom(ctx context.Context) (GivenUp, bool) {
	g, ok := ctx.Value(givenUpKey{}).(GivenUp)
	return g, ok
}

// hasLastWord reports whether the handler is run once more for a message that is given up. If
// that cannot be told it is not, and the returned failure says so.
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

// lastWordDue reports whether a message that comes again has nothing left but its last word.
func (c *receiver) lastWordDue(m *waybill.Message, past *inbox.Attempts) bool {
	if past == nil || !c.cfg.Retry.Exhausted(past.Count) {
		return false
	}
	has, _ := c.hasLastWord(m, failure{}) // if it cannot be told the usual attempt is made, and tells
	return has
}

// giveUp lets a message have its last word, or makes it a dead letter. That its attempts are
// used up is written down first: when it comes again it has its last word again.
func (c *Consumer[Tx]) giveUp(ctx context.Context, rec inbox.Record, m *waybill.Message, f failure, attempts int) verdict {
	has, f := c.hasLastWord(m, f)
	if f.conflict || !has {
		return c.bury(ctx, rec, m, f, attempts)
	}
	given := GivenUp{Reason: reasonOf(f.cause), Err: waybill.ErrorText(f.cause), Attempts: attempts}
	if err := c.saveUsedUp(ctx, rec, given, 0, f.took); err != nil {
		return c.unavailable(ctx, m, err)
	}
	return c.lastWord(ctx, rec, m, given)
}

// saveUsedUp stores that a message has only its last word left, which is due after wait.
func (c *Consumer[Tx]) saveUsedUp(ctx context.Context, rec inbox.Record, given GivenUp, wait, took time.Duration) error {
	all := 1 + max(c.cfg.Retry.MaxRetries, 0)
	return c.box.SaveAttempt(ctx, rec.Key, inbox.FailedAttempt{
		Count: max(given.Attempts, all), Wait: wait, Error: given.Err, Node: c.cfg.Node, Took: took,
	})
}

// lastWord runs the handler for a message that was given up. That counts as no attempt: it is
// repeated until it succeeds or fails for good.
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
	delay := c.cfg.Retry.Delay(given.Attempts)
	if err := c.saveUsedUp(ctx, rec, given, delay, 0); err != nil {
		return c.unavailable(ctx, m, err)
	}
	return c.retry(ctx, m, given.Attempts, delay, err)
}

// poisoned gives up a message that has ended its process too often. Its last word is spoken
// while nothing else runs; if that is what has ended the process there is no other.
func (c *Consumer[Tx]) poisoned(ctx, work context.Context, rec inbox.Record, m *waybill.Message, past *inbox.Attempts) verdict {
	f, attempts := failure{cause: poisonous(past.Starts)}, past.Count+past.Starts
	has, f := c.hasLastWord(m, f)
	if c.cfg.Retry.Exhausted(past.Count) || !has {
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
