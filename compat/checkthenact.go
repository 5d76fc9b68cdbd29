package compat

import (
	"context"
	"sync"
	"time"

	"github.com/waybill-go/waybill/inbox/lease"
)

// KeyStore is a self-written inbox that checks first and marks later. Both methods must be safe for
// concurrent use.
type KeyStore interface {
	// IsProcessed reports whether the key has been marked.
	IsProcessed(ctx context.Context, key string) (bool, error)

	// MarkProcessed marks the key. Marking it again must not fail.
	MarkProcessed(ctx context.Context, key string) error
}

// checkThenActKeys is the number of unfinished keys for which attempts are counted.
const checkThenActKeys = 10_000

// CheckThenAct is a [lease.Store] on a [KeyStore], so that a consumer can use it unchanged. It
// keeps nothing between the check and the mark, and so it is weaker than every other lease store:
//
//   - Two deliveries of one message at the same time both run. No answer is ever Busy.
//   - A lease never ends and is never lost, and the token is always 0: a consumer that was
//     taken for dead continues and marks.
//   - A consumer that dies between its effect and the mark leaves no trace; the next delivery
//     has the effect again.
//   - Attempts are counted by this process, for up to 10,000 keys, and forgotten with it. So
//     they are limited per process, and a message may be tried more often than requested.
//   - Payloads are not compared: a key that is marked is Processed, and never a conflict.
//   - A key that is released does not wait: a retry that is delivered early starts early.
//   - Nothing is purged; the store decides how long keys are kept.
//
// It is for migrations, and for handlers to which none of this matters.
type CheckThenAct struct {
	store KeyStore

	mu       sync.Mutex
	attempts map[string]int
}

var _ lease.Store = (*CheckThenAct)(nil)

// NewCheckThenAct returns a lease store on a KeyStore. It returns an error if store is nil.
func NewCheckThenAct(store KeyStore) (*CheckThenAct, error) {
	if store == nil {
		return nil, required("store")
	}
	return &CheckThenAct{store: store, attempts: make(map[string]int)}, nil
}

// TryBegin checks the key, and answers Acquired unless it is marked, even if another caller is processing it.
func (c *CheckThenAct) TryBegin(ctx context.Context, req lease.Request) (lease.Answer, error) {
	if err := req.Validate(); err != nil {
		return lease.Answer{}, err
	}
	processed, err := c.store.IsProcessed(ctx, req.Key)
	if err != nil {
		return lease.Answer{}, err
	}
	if processed {
		return lease.Answer{Status: lease.Processed}, nil
	}
	n, ok := c.begin(req.Key, req.MaxAttempts)
	if !ok {
		return lease.Answer{Status: lease.Exhausted, Attempts: n}, nil
	}
	return acquired(req.LeaseID(), n, req.TTL), nil
}

func acquired(id string, attempts int, ttl time.Duration) lease.Answer {
	return lease.Answer{Status: lease.Acquired, LeaseID: id, Attempts: attempts, ExpiresAt: time.Now().Add(ttl), Remaining: ttl}
}

// begin counts an attempt, unless limit is reached; 0 is no limit. If there is no room for a key it
// replaces any other.
func (c *CheckThenAct) begin(key string, limit int) (int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.attempts[key]
	if limit > 0 && n >= limit {
		return n, false
	}
	if n == 0 && len(c.attempts) >= checkThenActKeys {
		for other := range c.attempts {
			delete(c.attempts, other)
			break
		}
	}
	c.attempts[key] = n + 1
	return n + 1, true
}

// RenewLease answers Acquired: there is nothing to lose.
func (c *CheckThenAct) RenewLease(_ context.Context, l lease.Lease, ttl time.Duration) (lease.Answer, error) {
	if err := lease.ValidateTTL(ttl); err != nil {
		return lease.Answer{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return acquired(l.ID, c.attempts[l.Key], ttl), nil
}

// MarkProcessed marks the key, even if another caller is processing it.
func (c *CheckThenAct) MarkProcessed(ctx context.Context, l lease.Lease) (lease.Status, error) {
	if err := c.store.MarkProcessed(ctx, l.Key); err != nil {
		return "", err
	}
	c.forget(l.Key)
	return lease.Processed, nil
}

func (c *CheckThenAct) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.attempts, key)
}

// ReleaseLease does not count the attempt if r.Uncounted is set. It has no other effect, and nothing waits.
func (c *CheckThenAct) ReleaseLease(_ context.Context, l lease.Lease, r lease.Release) (lease.Status, error) {
	if err := r.Validate(); err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.attempts[l.Key]; r.Uncounted && n > 1 {
		c.attempts[l.Key] = n - 1
	} else if r.Uncounted {
		delete(c.attempts, l.Key)
	}
	return lease.Released, nil
}

// ReadLease answers Processed or Unknown: nothing else is known of a key.
func (c *CheckThenAct) ReadLease(ctx context.Context, key string) (lease.Record, error) {
	if err := lease.ValidateKey(key); err != nil {
		return lease.Record{}, err
	}
	processed, err := c.store.IsProcessed(ctx, key)
	if err != nil || !processed {
		return lease.Record{Status: lease.Unknown}, err
	}
	return lease.Record{Status: lease.Processed}, nil
}

// PurgeLeases removes nothing.
func (c *CheckThenAct) PurgeLeases(context.Context, time.Duration, int) (int, error) { return 0, nil }
