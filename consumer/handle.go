package consumer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/backoff"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/internal/report"
	"github.com/waybill-go/waybill/observe"
)

const (
	maxConflictTries = 5
	conflictBackoff  = 5 * time.Millisecond
	outageWait       = time.Second // before a delivery that met an outage is retried
	settleTimeout    = 10 * time.Second
)

// verdict is what to do with a delivery.
type verdict struct {
	again bool          // deliver it again
	after time.Duration // not before

	uncounted bool // the attempt was not counted, and nothing is recorded about it
}

var done = verdict{}

func again(after time.Duration) verdict { return verdict{again: true, after: after} }

// handle handles a delivery without an order: if it fails the broker delivers it again later.
func (c *receiver) handle(ctx, work context.Context, d *held) {
	if ctx.Err() != nil {
		c.giveBack(work, d)
		return
	}
	defer c.held.remove(d)
	v := c.attempt(ctx, work, d, d.Redelivered())
	settle, cancel := context.WithTimeout(context.WithoutCancel(work), settleTimeout)
	defer cancel()
	if v.again {
		c.reportSettle(work, d.Retry(settle, v.after))
	} else {
		c.reportSettle(work, d.Ack(settle))
	}
}

// handleInOrder handles a delivery of an ordered key: if it fails it is retried here, and what follows it
// waits. That outlives a pause which is over before the attempt: what comes then is queued behind it.
// Otherwise all deliveries of the key are requeued, of which behind takes the rest, and handleInOrder
// returns false.
func (c *receiver) handleInOrder(work context.Context, d *held, behind func() []*held) bool {
	for redelivered := d.Redelivered(); ; {
		ctx := c.current.Load().ctx
		if !c.acquire(ctx) {
			if c.leave(work, d, behind) {
				return false
			}
			continue
		}
		v := c.attempt(ctx, work, d, redelivered)
		c.releaseHandler()
		c.stalls.hold(d.key, v.again)
		if !v.again {
			c.acknowledge(work, d)
			return true
		}
		redelivered = true
		loop.Sleep(ctx, v.after)
	}
}

// acknowledge settles a delivery of a key.
func (c *receiver) acknowledge(work context.Context, d *held) {
	settle, cancel := context.WithTimeout(context.WithoutCancel(work), settleTimeout)
	defer cancel()
	c.reportSettle(work, d.Ack(settle))
	c.held.remove(d)
	c.leaveKey(d)
}

// leave requeues a delivery, and what behind takes, unless another period has begun. It reports whether it did.
func (c *receiver) leave(work context.Context, d *held, behind func() []*held) bool {
	c.periods.RLock()
	defer c.periods.RUnlock()
	if c.current.Load().ctx.Err() == nil {
		return false
	}
	c.drop(work, append([]*held{d}, behind()...))
	return true
}

// drop requeues deliveries that were not started.
func (c *receiver) drop(work context.Context, list []*held) {
	for _, d := range list {
		c.leaveKey(d)
		c.giveBack(work, d)
	}
}

// leaveKey records that a delivery no longer waits.
func (c *receiver) leaveKey(d *held) {
	if d.key != "" {
		c.stalls.change(d.key, -1)
	}
}

// giveBack requeues a delivery that was not started, or not retried, for any member of the group.
// Nothing is counted.
func (c *receiver) giveBack(work context.Context, d *held) {
	defer c.held.remove(d)
	settle, cancel := context.WithTimeout(work, settleTimeout)
	defer cancel()
	if r, is := d.Delivery.(contract.Returner); is {
		c.reportSettle(work, r.Return(settle))
	} else {
		c.reportSettle(work, d.Retry(settle, 0))
	}
}

// reportSettle reports an acknowledgement that failed. The broker delivers the message
// again, and the inbox recognises it.
func (c *receiver) reportSettle(ctx context.Context, err error) {
	if err != nil {
		c.observe(ctx, observe.Event{Op: observe.OpSettle, Count: 1, Err: fmt.Errorf("settle delivery: %w", err)})
	}
}

// attempt runs one attempt at a delivery and says what to do with it. An attempt in flight outlives
// ctx until work ends; none is started after the end of ctx.
func (c *receiver) attempt(ctx, work context.Context, d *held, redelivered bool) verdict {
	m, err := d.Message()
	if err != nil {
		err = waybill.PermanentError(waybill.ReasonMalformed, fmt.Errorf("envelope does not decode: %w", err))
	} else {
		err = c.identify(m)
	}
	if err != nil {
		rec := unfitRecord(c.name, m)
		rec.At = c.position(d)
		return c.bury(work, rec, m, failure{cause: err}, 1)
	}
	rec := inbox.RecordOf(c.name, m)
	rec.At = c.position(d)
	return c.try(ctx, work, rec, m, redelivered)
}

// tryMessage runs the handler in a transaction of the inbox. For a redelivered message the store
// may have attempts.
func (c *Consumer[Tx]) tryMessage(ctx, work context.Context, rec inbox.Record, m *waybill.Message, redelivered bool) verdict {
	if redelivered {
		return c.attemptAgain(ctx, work, rec, m)
	}
	return c.run(work, rec, m, nil)
}

// run runs the handler. past is what the store has of earlier attempts, nil if it was not asked.
func (c *Consumer[Tx]) run(ctx context.Context, rec inbox.Record, m *waybill.Message, past *contract.Attempts) verdict {
	if c.lastWordDue(m, past) {
		return c.lastWord(ctx, rec, m, GivenUp{Reason: waybill.ReasonExhausted, Err: past.Error, Attempts: past.Count})
	}
	began := time.Now()
	outcome, err := c.process(ctx, rec, m)
	if err != nil {
		return c.failed(ctx, rec, m, failure{cause: err, took: time.Since(began)}, past)
	}
	return c.succeeded(ctx, rec, m, outcome, past)
}

// putBack defers a delivery that is not to be handled now.
func (c *receiver) putBack(ctx context.Context, m *waybill.Message, wait time.Duration) verdict {
	return c.tellBusy(ctx, m, wait, nil)
}

func (c *receiver) tellBusy(ctx context.Context, m *waybill.Message, wait time.Duration, err error) verdict {
	c.observe(ctx, observe.Event{Op: observe.OpBusy, Topic: m.Address(), Type: m.Type, IDs: []string{m.ID}, Count: 1, Delay: wait, Err: err})
	return again(wait)
}

// identify makes sure that m can be recorded, and recognised when it is redelivered.
func (c *receiver) identify(m *waybill.Message) error {
	if m.DedupKey() != "" {
		return recordable(m)
	}
	if c.cfg.MessageKey == nil {
		return waybill.PermanentError(waybill.ReasonNoID, errors.New("the message has neither an id nor an idempotency key"))
	}
	key, err := loop.IsolateValue(func() (string, error) { return c.cfg.MessageKey(m) })
	if err != nil || key == "" {
		return waybill.PermanentError(waybill.ReasonNoID, errors.Join(errors.New("no key could be made for a message without id"), err))
	}
	if len(key) > waybill.MaxIDLen {
		return waybill.PermanentError(waybill.ReasonNoID, fmt.Errorf("the key made for a message without id has %d bytes, the limit is %d", len(key), waybill.MaxIDLen))
	}
	m.IdempotencyKey = key
	return recordable(m)
}

// recordable checks a received message against the limits of an inbox. The payload may
// be larger, and headers may be named otherwise, than what we would enqueue.
func recordable(m *waybill.Message) error {
	envelope := *m
	envelope.Payload, envelope.Headers = nil, nil
	if envelope.ID == "" {
		envelope.ID = envelope.IdempotencyKey
	}
	return envelope.Validate()
}

// unfitRecord is the inbox record of a message that is dead-lettered without being handled. Where its
// key had to be cut to be stored, a hash of the whole keeps different messages apart.
func unfitRecord(consumer string, m *waybill.Message) inbox.Record {
	storable := m.Storable()
	rec := inbox.RecordOf(consumer, &storable)
	if raw := inbox.KeyOf(consumer, m); raw != rec.Key && raw.Message != "" {
		sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{raw.Tenant, raw.Source, raw.Alias, raw.Message}))
		rec.Key.Message = "sha256:" + hex.EncodeToString(sum[:])
	}
	return rec
}

// process runs the handler in the inbox's transaction.
func (c *Consumer[Tx]) process(ctx context.Context, rec inbox.Record, m *waybill.Message) (inbox.Outcome, error) {
	return c.repeat(ctx, m, func() (inbox.Outcome, error) {
		return c.box.ProcessOnce(ctx, rec, func(ctx context.Context, tx Tx) error {
			return c.callOne(ctx, tx, m)
		})
	})
}

// repeat calls once, again at once on conflicts, and after an error as often as ImmediateRetries
// allows.
func (c *receiver) repeat(ctx context.Context, m *waybill.Message, once func() (inbox.Outcome, error)) (outcome inbox.Outcome, err error) {
	began := time.Now()
	for conflicts, failures := 1, 0; ; {
		outcome, err = once()
		if errors.Is(err, inbox.ErrBusy) || errors.Is(err, contract.ErrFenced) {
			return outcome, err // the handler has not run; asking again at once would give the same answer
		}
		if waybill.IsConflict(err) && conflicts < maxConflictTries {
			c.observe(ctx, observe.Event{Op: observe.OpRepeat, Topic: m.Address(), Type: m.Type, IDs: []string{m.ID}, Count: 1, Attempt: conflicts, Err: err})
			loop.Sleep(ctx, rand.N(conflictBackoff<<conflicts))
			conflicts++
		} else if repeatable(err) && failures < c.cfg.ImmediateRetries {
			failures++
		} else {
			break
		}
	}
	c.judge(m, outcome, err)
	if err != nil || outcome == inbox.Processed {
		c.observe(ctx, observe.Event{Op: observe.OpHandle, Topic: m.Address(), Type: m.Type, IDs: []string{m.ID}, Count: 1, Duration: time.Since(began), Err: err, Age: report.Age(m)})
	}
	return outcome, err
}

// repeatable reports whether a handler that failed with err may succeed at once. One that timed out
// has held its slot for long enough.
func repeatable(err error) bool {
	return waybill.IsTransient(err) && !errors.Is(err, context.DeadlineExceeded)
}

// callOne runs the handler for one message.
func (c *Consumer[Tx]) callOne(ctx context.Context, tx Tx, m *waybill.Message) error {
	return c.call(ctx, m, func(ctx context.Context) error { return c.handler(ctx, tx, m) })
}

// call runs the handler itself; a panic and runtime.Goexit become errors.
func (c *receiver) call(ctx context.Context, m *waybill.Message, handler func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(waybill.WithMessage(ctx, m), c.cfg.HandlerTimeout)
	defer cancel()
	ctx, end := c.cfg.Observer.Start(observe.WithName(ctx, c.name), observe.OpHandle, m)
	err := judged(ctx, loop.Isolate(func() error { return handler(ctx) }))
	end(err)
	return err
}

func (c *Consumer[Tx]) succeeded(ctx context.Context, rec inbox.Record, m *waybill.Message, outcome inbox.Outcome, past *contract.Attempts) verdict {
	c.busyKeys.free(rec.Key)
	switch outcome {
	case inbox.Duplicate, inbox.Dead:
		c.observe(ctx, observe.Event{Op: observe.OpDuplicate, Topic: m.Address(), Type: m.Type, IDs: []string{m.ID}, Count: 1})
	case inbox.Conflict:
		return c.conflicting(ctx, rec, m, past)
	}
	return done
}

// conflicting decides what to do with a message that has the key of another one.
func (c *Consumer[Tx]) conflicting(ctx context.Context, rec inbox.Record, m *waybill.Message, past *contract.Attempts) verdict {
	f := c.conflict(ctx, m)
	if c.cfg.OnConflict == ConflictSkip {
		return done
	}
	return c.failed(ctx, rec, m, f, past)
}

// conflict reports a message that has the key of another one, and returns the result of its attempt.
func (c *receiver) conflict(ctx context.Context, m *waybill.Message) failure {
	err := errors.New("a message with this key was processed with another payload")
	if c.cfg.OnConflict != ConflictRetry {
		err = waybill.PermanentError(waybill.ReasonConflict, err)
	}
	c.observe(ctx, observe.Event{Op: observe.OpConflict, Topic: m.Address(), Type: m.Type, IDs: []string{m.ID}, Count: 1, Err: err})
	return failure{cause: err, conflict: true}
}

// failure is the result of an attempt.
type failure struct {
	cause    error
	took     time.Duration // 0 if nothing was tried
	conflict bool          // the message has the key of another one, whose record stays as it is
}

// failed decides what to do with a message whose handler, or transaction, failed.
func (c *Consumer[Tx]) failed(ctx context.Context, rec inbox.Record, m *waybill.Message, f failure, past *contract.Attempts) verdict {
	kind := waybill.KindOf(f.cause)
	if kind == waybill.Unavailable || kind == waybill.Conflict {
		return c.unavailable(ctx, m, f.cause)
	}
	c.busyKeys.free(rec.Key)
	if past == nil {
		stored, err := c.box.FailedAttempts(ctx, rec.Key)
		if err != nil {
			return c.unavailable(ctx, m, err)
		}
		past = &stored
	}
	count := past.Count + 1
	if kind == waybill.Permanent || backoff.Exhausted(c.cfg.Retry, count) {
		return c.giveUp(ctx, rec, m, f, count)
	}
	delay := backoff.Delay(c.cfg.Retry, count)
	tried := contract.FailedAttempt{Count: count, Wait: delay, Error: observe.ErrorText(f.cause), Node: c.cfg.Node, Took: f.took}
	if err := c.box.SaveAttempt(ctx, rec.Key, tried); err != nil {
		return c.unavailable(ctx, m, err)
	}
	return c.retry(ctx, m, count, delay, f.cause)
}

// retry defers a delivery until its next attempt.
func (c *receiver) retry(ctx context.Context, m *waybill.Message, attempts int, delay time.Duration, cause error) verdict {
	c.observe(ctx, observe.Event{Op: observe.OpRetry, Topic: m.Address(), Type: m.Type, IDs: []string{m.ID}, Count: 1, Attempt: attempts, Delay: delay, Err: cause})
	return again(delay)
}

// unavailable defers a delivery without counting an attempt.
func (c *receiver) unavailable(ctx context.Context, m *waybill.Message, cause error) verdict {
	if errors.Is(cause, inbox.ErrBusy) {
		return c.busy(ctx, m, cause)
	}
	wait, ok := waybill.AfterOf(cause)
	if !ok {
		wait = outageWait
	}
	c.observe(ctx, observe.Event{Op: observe.OpPause, Topic: m.Address(), Type: m.Type, Delay: wait, Err: cause})
	return verdict{again: true, after: wait, uncounted: true}
}

// bury makes a message a dead letter, after which the delivery is acknowledged.
func (c *receiver) bury(ctx context.Context, rec inbox.Record, m *waybill.Message, f failure, attempts int) verdict {
	if f.conflict {
		rec.Key.Message = ""
	}
	letter := inbox.Letter{
		Record: rec, Message: m.Storable(), Reason: reasonOf(f.cause), Error: observe.ErrorText(f.cause),
		Attempts: attempts, Node: c.cfg.Node, Took: f.took, Failed: c.cfg.DisableDeadLetters,
	}
	stored, err := c.buryLetter(ctx, letter)
	if err != nil {
		return c.unavailable(ctx, m, err)
	}
	if stored {
		op := observe.OpDead
		if letter.Failed {
			op = observe.OpFailed
		}
		c.observe(ctx, observe.Event{Op: op, Topic: m.Address(), Type: m.Type, IDs: []string{m.ID}, Count: 1, Attempt: attempts, Reason: letter.Reason, Err: f.cause})
	}
	return done
}
