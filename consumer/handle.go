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
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/loop"
)

const (
	maxConflictTries = 5
	conflictBackoff  = 5 * time.Millisecond
	outageWait       = time.Second // before a delivery that met an outage comes again
	settleTimeout    = 10 * time.Second
)

// verdict is what to do with a delivery.
type verdict struct {
	again bool          // deliver it again
	after time.Duration // not before
}

var done = verdict{}

func again(after time.Duration) verdict { return verdict{again: true, after: after} }

// handle handles a delivery of no order: if it fails the broker delivers it again later.
func (c *Consumer[Tx]) handle(ctx, work context.Context, d *held) {
	defer c.held.remove(d)
	if ctx.Err() != nil {
		return // not begun: the broker redelivers it
	}
	v := c.attempt(work, d, d.Redelivered())
	settle, cancel := context.WithTimeout(context.WithoutCancel(work), settleTimeout)
	defer cancel()
	if v.again {
		c.reportSettle(work, d.Retry(settle, v.after))
	} else {
		c.reportSettle(work, d.Ack(settle))
	}
}

// handleInOrder handles a delivery whose key has an order: if it fails it is tried again
// here, and what follows it waits.
func (c *Consumer[Tx]) handleInOrder(ctx, work context.Context, d *held) {
	defer c.held.remove(d)
	for redelivered := d.Redelivered(); c.acquire(ctx); redelivered = true {
		v := c.attempt(work, d, redelivered)
		c.releaseHandler()
		if !v.again {
			settle, cancel := context.WithTimeout(context.WithoutCancel(work), settleTimeout)
			defer cancel()
			c.reportSettle(work, d.Ack(settle))
			return
		}
		loop.Sleep(ctx, v.after)
	}
}

// reportSettle tells of an acknowledgement that failed. The broker delivers the message
// again, and the inbox recognises it.
func (c *Consumer[Tx]) reportSettle(ctx context.Context, err error) {
	if err != nil {
		c.observe(ctx, waybill.Event{Op: waybill.OpSettle, Count: 1, Err: fmt.Errorf("settle delivery: %w", err)})
	}
}

// attempt runs one attempt at a delivery and says what to do with it.
func (c *Consumer[Tx]) attempt(ctx context.Context, d *held, redelivered bool) verdict {
	m, err := d.Message()
	if err != nil {
		err = waybill.PermanentError(waybill.ReasonMalformed, fmt.Errorf("envelope does not decode: %w", err))
	} else {
		err = c.identify(m)
	}
	if err != nil {
		return c.bury(ctx, unfitRecord(c.cfg.Name, m), m, failure{cause: err}, 1)
	}
	rec := inbox.RecordOf(c.cfg.Name, m)
	var past inbox.Attempts
	if redelivered {
		if past, err = c.box.FailedAttempts(ctx, rec.Key); err != nil {
			return c.unavailable(ctx, m, err)
		}
		if past.Wait > 0 { // it came too early, after a restart perhaps
			c.observe(ctx, waybill.Event{Op: waybill.OpBusy, Topic: m.Address(), Type: m.Type, IDs: []string{m.ID}, Count: 1, Delay: past.Wait})
			return again(past.Wait)
		}
		rec.Retried = past.Count > 0
	}
	began := time.Now()
	outcome, err := c.process(ctx, rec, m)
	if err != nil {
		return c.failed(ctx, rec, m, failure{err, time.Since(began)}, redelivered, past)
	}
	return c.succeeded(ctx, rec, m, outcome)
}

// identify makes sure that m can be recorded, and recognised when it comes again.
func (c *Consumer[Tx]) identify(m *waybill.Message) error {
	if m.DedupKey() != "" {
		return recordable(m)
	}
	if c.cfg.MessageKey == nil {
		return waybill.PermanentError(waybill.ReasonNoID, errors.New("the message has neither an id nor an idempotency key"))
	}
	key, err := c.cfg.MessageKey(m)
	if err != nil || key == "" {
		return waybill.PermanentError(waybill.ReasonNoID, errors.Join(errors.New("no key could be made for a message without id"), err))
	}
	if len(key) > waybill.MaxIDLen {
		return waybill.PermanentError(waybill.ReasonNoID, fmt.Errorf("the key made for a message without id has %d bytes, the limit is %d", len(key), waybill.MaxIDLen))
	}
	m.IdempotencyKey = key
	return recordable(m)
}

// recordable checks what came from outside against the limits of an inbox. The payload may
// be larger, and headers may be named otherwise, than what we would enqueue.
func recordable(m *waybill.Message) error {
	envelope := *m
	envelope.Payload, envelope.Headers = nil, nil
	if envelope.ID == "" {
		envelope.ID = envelope.IdempotencyKey
	}
	return envelope.Validate()
}

// unfitRecord is the inbox record of a message that is made a dead letter unread. Where its
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

// process runs the handler in the inbox's transaction, repeated in place on conflicts.
func (c *Consumer[Tx]) process(ctx context.Context, rec inbox.Record, m *waybill.Message) (outcome inbox.Outcome, err error) {
	began := time.Now()
	for try := 1; ; try++ {
		outcome, err = c.box.ProcessOnce(ctx, rec, func(ctx context.Context, tx Tx) error { return c.call(ctx, tx, m) })
		if !waybill.IsConflict(err) || try == maxConflictTries {
			break
		}
		loop.Sleep(ctx, rand.N(conflictBackoff<<try))
	}
	if err != nil || outcome == inbox.Processed {
		c.observe(ctx, waybill.Event{Op: waybill.OpHandle, Topic: m.Address(), Type: m.Type, IDs: []string{m.ID}, Count: 1, Duration: time.Since(began), Err: err})
	}
	return outcome, err
}

// call runs the handler itself; a panic becomes an error.
func (c *Consumer[Tx]) call(ctx context.Context, tx Tx, m *waybill.Message) error {
	ctx, cancel := context.WithTimeout(waybill.WithMessage(ctx, m), c.cfg.HandlerTimeout)
	defer cancel()
	ctx, end := c.cfg.Observer.Start(ctx, waybill.OpHandle, m)
	err := loop.Protect(func() error { return c.handler(ctx, tx, m) })
	if err != nil && ctx.Err() != nil { // whatever the handler makes of it
		err = errors.Join(err, ctx.Err())
	}
	end(err)
	return err
}

func (c *Consumer[Tx]) succeeded(ctx context.Context, rec inbox.Record, m *waybill.Message, outcome inbox.Outcome) verdict {
	switch outcome {
	case inbox.Duplicate, inbox.Dead:
		c.observe(ctx, waybill.Event{Op: waybill.OpDuplicate, Topic: m.Address(), Type: m.Type, IDs: []string{m.ID}, Count: 1})
	case inbox.Conflict:
		rec.Key.Message = "" // the record of the other message stays as it is
		err := waybill.PermanentError(waybill.ReasonConflict, errors.New("a message with this key was processed with another payload"))
		return c.bury(ctx, rec, m, failure{cause: err}, 1)
	}
	return done
}

// failure is what an attempt came to.
type failure struct {
	cause error
	took  time.Duration // 0 if nothing was tried
}

// failed decides what becomes of a message whose handler, or transaction, failed.
func (c *Consumer[Tx]) failed(ctx context.Context, rec inbox.Record, m *waybill.Message, f failure, known bool, past inbox.Attempts) verdict {
	kind := waybill.KindOf(f.cause)
	if kind == waybill.Unavailable || kind == waybill.Conflict {
		return c.unavailable(ctx, m, f.cause)
	}
	if !known {
		var err error
		if past, err = c.box.FailedAttempts(ctx, rec.Key); err != nil {
			return c.unavailable(ctx, m, err)
		}
	}
	count := past.Count + 1
	if kind == waybill.Permanent || c.cfg.Retry.Exhausted(count) {
		return c.bury(ctx, rec, m, f, count)
	}
	delay := c.cfg.Retry.Delay(count)
	tried := inbox.FailedAttempt{Count: count, Wait: delay, Error: waybill.ErrorText(f.cause), Node: c.cfg.Node, Took: f.took}
	if err := c.box.SaveAttempt(ctx, rec.Key, tried); err != nil {
		return c.unavailable(ctx, m, err)
	}
	c.observe(ctx, waybill.Event{Op: waybill.OpRetry, Topic: m.Address(), Type: m.Type, IDs: []string{m.ID}, Count: 1, Attempt: count, Delay: delay, Err: f.cause})
	return again(delay)
}

// unavailable lets a delivery wait without counting an attempt.
func (c *Consumer[Tx]) unavailable(ctx context.Context, m *waybill.Message, cause error) verdict {
	wait, ok := waybill.AfterOf(cause)
	if !ok {
		wait = outageWait
	}
	c.observe(ctx, waybill.Event{Op: waybill.OpPause, Topic: m.Address(), Type: m.Type, Delay: wait, Err: cause})
	return again(wait)
}

// bury makes a message a dead letter, after which the delivery is acknowledged.
func (c *Consumer[Tx]) bury(ctx context.Context, rec inbox.Record, m *waybill.Message, f failure, attempts int) verdict {
	letter := inbox.Letter{
		Record: rec, Message: m.Storable(), Reason: waybill.ReasonExhausted, Error: waybill.ErrorText(f.cause),
		Attempts: attempts, Node: c.cfg.Node, Took: f.took, Failed: c.cfg.DisableDeadLetters,
	}
	if waybill.IsPermanent(f.cause) {
		letter.Reason = waybill.ReasonOf(f.cause)
	}
	stored, err := c.box.BuryMessage(ctx, letter)
	if err != nil {
		return c.unavailable(ctx, m, err)
	}
	if stored {
		op := waybill.OpDead
		if letter.Failed {
			op = waybill.OpFailed
		}
		c.observe(ctx, waybill.Event{Op: op, Topic: m.Address(), Type: m.Type, IDs: []string{m.ID}, Count: 1, Attempt: attempts, Reason: letter.Reason, Err: f.cause})
	}
	return done
}

// requeueRound runs the dead letters of this consumer that were requeued, and waits.
func (c *Consumer[Tx]) requeueRound(ctx context.Context) error {
	for ctx.Err() == nil {
		found, err := c.box.RunRequeued(ctx, c.cfg.Name, c.cfg.Node, c.call)
		if err != nil && !found {
			return err
		}
		if !found {
			break
		}
		c.observe(ctx, waybill.Event{Op: waybill.OpRequeue, Count: 1, Err: err})
	}
	loop.Sleep(ctx, c.cfg.RequeueInterval)
	return nil
}
