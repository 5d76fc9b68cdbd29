package consumer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/internal/backoff"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/observe"
)

// LeasedHandler handles one message whose effects are not in a transaction with the record
// that it was processed. The context ends at HandlerTimeout, and before the lease under which the
// handler runs; [lease.FromContext] returns that lease, whose Token is a fencing token for what the
// handler writes. The context carries m for [waybill.MessageFrom]. The handler must not keep m.
//
// nil marks the message as processed. The kinds of errors mean the same as for a [Handler].
// A message is handled again if its process, or the lease, ends between the effect and the
// mark: effects happen at least once.
type LeasedHandler func(ctx context.Context, m *waybill.Message) error

// Leased takes deliveries from a subscriber and handles each message under a lease, which one
// consumer of its name holds at a time.
type Leased struct {
	*receiver
	store   lease.Store
	handler LeasedHandler
	leases  Leases
}

// NewLeased returns a consumer that receives what s selects from b, leases messages in store and
// handles them with h. What cfg says about the inbox applies to the store: InboxRetention is how
// long it remembers what was processed. The error is an [*waybill.InvalidError] that names what is
// missing or wrong.
func NewLeased(b Broker, s Subscription, store lease.Store, h LeasedHandler, leases Leases, cfg Config) (*Leased, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	switch {
	case b == nil:
		return nil, &waybill.InvalidError{Field: "b", Reason: "a broker is required"}
	case store == nil:
		return nil, &waybill.InvalidError{Field: "store", Reason: "a lease store is required"}
	case h == nil:
		return nil, &waybill.InvalidError{Field: "h", Reason: "a handler is required"}
	}
	r, err := newReceiver(b, s, cfg)
	if err != nil {
		return nil, err
	}
	if leases, err = leases.withDefaults(r.name, &r.cfg); err != nil {
		return nil, err
	}
	c := &Leased{receiver: r, store: store, handler: h, leases: leases}
	r.buryLetter, r.try = r.timedBury(leases.Letters.bury), c.tryMessage
	r.ping = func(ctx context.Context) error {
		_, err := store.ReadLease(ctx, c.key(inbox.Record{Key: inbox.Key{Consumer: r.name}}))
		return err
	}
	if leases.Letters.rerun != nil {
		r.requeues = leases.Letters.rerun(r, h)
	}
	return c, nil
}

// leasedMessage is a message whose key this consumer has leased.
type leasedMessage struct {
	*waybill.Message
	rec      inbox.Record
	lease    lease.Lease
	attempts int       // that count, with this one
	asked    time.Time // before the store was asked
	lasts    time.Duration
}

// tryMessage runs one attempt at a message. A redelivered one is a suspect if its last lease has
// expired without being released. A suspect runs while nothing else does.
func (c *Leased) tryMessage(ctx, work context.Context, rec inbox.Record, m *waybill.Message, redelivered bool) verdict {
	key := c.key(rec)
	if !redelivered {
		return c.tryLease(work, rec, m, key, false)
	}
	var past lease.Record
	err := c.receiver.ask(work, func(ctx context.Context) (err error) {
		past, err = c.store.ReadLease(ctx, key)
		return err
	})
	if err != nil {
		return c.unreachable(work, rec, m, err)
	}
	// Inbox services of older versions answer Released with the end of the lease.
	suspect := past.Status == lease.Expired || past.Status == lease.Released && !past.LeaseUntil.IsZero()
	if suspect {
		leave, alone := c.alone(ctx)
		defer leave()
		if !alone {
			return c.putBack(work, m, outageWait)
		}
	}
	return c.tryLease(work, rec, m, key, suspect)
}

// tryLease leases the key of a message and runs the handler under the lease.
func (c *Leased) tryLease(work context.Context, rec inbox.Record, m *waybill.Message, key string, suspect bool) verdict {
	answer, asked, err := c.begin(work, key, rec.PayloadHash)
	switch {
	case err != nil:
		return c.unreachable(work, rec, m, err)
	case answer.Conflict:
		return c.conflicting(work, rec, m, key)
	}
	return c.begun(work, m, answer, func() verdict {
		return c.underLease(work, leasedMessage{m, rec, leaseOf(key, answer), answer.Attempts, asked, answer.Remaining}, suspect)
	})
}

func leaseOf(key string, a lease.Answer) lease.Lease {
	return lease.Lease{Key: key, ID: a.LeaseID, Token: a.Token}
}

// begun acts on the answer to a request; it calls do for a key that was acquired.
func (c *Leased) begun(work context.Context, m *waybill.Message, answer lease.Answer, do func() verdict) verdict {
	switch answer.Status {
	case lease.Acquired:
		return do()
	case lease.Processed:
		return c.duplicate(work, m)
	case lease.Busy:
		return c.putBack(work, m, busyWait(answer.Remaining))
	}
	return c.unavailable(work, m, fmt.Errorf("lease store answers %q", answer.Status))
}

// key is the one that programs in other languages build.
func (c *Leased) key(rec inbox.Record) string {
	k := lease.Key{Tenant: rec.Tenant, Bus: c.leases.Bus, Group: rec.Consumer, Alias: rec.Alias, Message: rec.Message}
	if c.leases.SourceInKey {
		k.Source = rec.Source
	}
	return k.String()
}

// begin requests the key of a payload, and returns when it asked. Without an answer it asks once
// more with the same id: if the store has leased the key, it says so then. If both answers are
// lost, a leased key stays leased until that lease ends.
func (c *Leased) begin(ctx context.Context, key, payloadHash string) (answer lease.Answer, asked time.Time, err error) {
	req := lease.Request{Key: key, Owner: c.cfg.Node, TTL: c.leases.TTL, RequestID: lease.NewID(), PayloadHash: payloadHash}
	for try := 1; ; try++ {
		asked = time.Now()
		answer, err = c.tryBegin(ctx, req)
		if err == nil || waybill.IsPermanent(err) || ctx.Err() != nil || try == beginTries {
			return answer, asked, err
		}
		loop.Sleep(ctx, settleBackoff)
	}
}

const beginTries = 2

// tryBegin requests a key. An answer that takes as long as the lease is of no use.
func (c *Leased) tryBegin(ctx context.Context, req lease.Request) (lease.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, min(req.TTL, settleTimeout))
	defer cancel()
	return c.store.TryBegin(ctx, req)
}

// Others may wait for the same lease to end: they come one after the other.
const (
	minBusyWait = 10 * time.Millisecond
	maxBusyWait = time.Minute
)

// busyWait is how long a delivery waits for the end of somebody else's lease, or for its retry.
func busyWait(remaining time.Duration) time.Duration {
	wait := min(max(remaining, minBusyWait), maxBusyWait)
	return wait + rand.N(wait/10)
}

// unreachable decides what to do with a message whose key could not be leased.
func (c *Leased) unreachable(ctx context.Context, rec inbox.Record, m *waybill.Message, err error) verdict {
	err = fmt.Errorf("begin lease: %w", err)
	switch {
	case waybill.IsPermanent(err): // no key that the store accepts
		return c.bury(ctx, rec, m, failure{cause: err}, 1)
	case c.leases.FailOpen && ctx.Err() == nil:
		return c.unleased(ctx, rec, m, err)
	}
	return c.unavailable(ctx, m, err)
}

// unleased runs the handler without a lease. Attempts are not counted in the meantime.
func (c *Leased) unleased(ctx context.Context, rec inbox.Record, m *waybill.Message, cause error) verdict {
	c.observe(ctx, observe.Event{Op: observe.OpUnleased, Topic: m.Address(), Type: m.Type, IDs: []string{m.ID}, Count: 1, Err: cause})
	err := c.runHandler(ctx, m)
	switch {
	case err == nil:
		return done
	case waybill.IsPermanent(err):
		return c.bury(ctx, rec, m, failure{cause: err}, 1)
	}
	return c.unavailable(ctx, m, err)
}

// underLease runs the handler under a lease, or dead-letters the message if its attempts are used up.
func (c *Leased) underLease(work context.Context, m leasedMessage, suspect bool) verdict {
	if past := m.attempts - 1; c.usedUp(past, suspect) {
		return c.settleDead(work, m, failure{cause: noneLeft(past, suspect)}, past)
	}
	ctx, h := c.hold(work, m)
	if h == nil {
		return c.settleFailed(work, m, failure{cause: waybill.UnavailableError(errLeaseEnds)})
	}
	began := time.Now()
	err := c.runHandler(ctx, m.Message)
	switch lost := h.close(); {
	case lost:
		return c.lost(work, m.Message)
	case err != nil:
		return c.settleFailed(work, m, failure{cause: err, took: time.Since(began)})
	}
	return c.settleProcessed(work, m)
}

// usedUp reports whether a message may not be tried again after the given number of attempts. A
// suspect gets at least poisonStarts: somebody may have killed the process.
func (c *Leased) usedUp(attempts int, suspect bool) bool {
	return backoff.Exhausted(c.cfg.Retry, attempts) && (!suspect || attempts >= poisonStarts)
}

// noneLeft is the error of a message that is dead-lettered before another attempt.
func noneLeft(attempts int, suspect bool) error {
	if suspect {
		return waybill.PermanentError(waybill.ReasonPoison, fmt.Errorf("no attempt is left after %d; the process, or the lease, ended while the message was handled the last time, while nothing else was", attempts))
	}
	return fmt.Errorf("no attempt is left after %d; nothing is known of the end of the last one", attempts)
}

// runHandler runs the handler, with immediate retries.
func (c *Leased) runHandler(ctx context.Context, m *waybill.Message) error {
	_, err := c.repeat(ctx, m, func() (inbox.Outcome, error) {
		return inbox.Processed, c.call(ctx, m, func(ctx context.Context) error { return c.handler(ctx, m) })
	})
	return err
}

// duplicate skips a message that was processed before.
func (c *Leased) duplicate(ctx context.Context, m *waybill.Message) verdict {
	c.observe(ctx, observe.Event{Op: observe.OpDuplicate, Topic: m.Address(), Type: m.Type, IDs: []string{m.ID}, Count: 1})
	return done
}

var (
	errLeaseEnds = errors.New("consumer: the lease ends, and the store has not renewed it in time")
	errLeaseLost = errors.New("consumer: somebody else has begun the message since; its effect may happen twice")
)
