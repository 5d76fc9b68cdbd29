package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
)

const (
	maxHeldWait = 30 * time.Second // before a delivery is retried whose message is handled elsewhere
	maxBusyKeys = 10_000           // that are remembered
)

// errHeld reports messages that are not handled because a transaction that does not end holds them.
var errHeld = errors.New("other transactions hold their inbox rows for longer than a handler may take: a replica's host has vanished, or a session is idle in its transaction; end it in the database")

// busyKeys are the messages that other transactions were found to hold when they were delivered.
type busyKeys struct {
	mu   sync.Mutex
	keys map[inbox.Key]*busyKey
	told time.Time // when it was last reported
}

// busyKey is a message that was held by another transaction.
type busyKey struct{ first, last, next time.Time } // the last time it was, and when it is tried again

// note records that a message is held, and returns how long to defer its delivery: twice as long as
// the last time. It returns errHeld once a minute if the message has been held for longer than
// limit.
func (b *busyKeys) note(key inbox.Key, now time.Time, limit time.Duration) (wait time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.keys[key]
	if k == nil || k.over(now) {
		b.makeRoom(now)
		k = &busyKey{first: now, last: now, next: now.Add(outageWait / 2)}
		b.keys[key] = k
	}
	wait = min(max(2*k.next.Sub(k.last), outageWait), maxHeldWait)
	k.last, k.next = now, now.Add(wait)
	if now.Sub(k.first) > limit && now.Sub(b.told) >= time.Minute {
		b.told = now
		err = b.heldFor(now, limit)
	}
	return wait, err
}

// over reports whether nobody has seen the message held since it was due, for a while.
func (k *busyKey) over(now time.Time) bool { return now.Sub(k.next) > time.Minute }

// makeRoom makes room for one more. The lock is held.
func (b *busyKeys) makeRoom(now time.Time) {
	if b.keys == nil {
		b.keys = make(map[inbox.Key]*busyKey)
	}
	if len(b.keys) < maxBusyKeys {
		return
	}
	for key, k := range b.keys {
		if k.over(now) {
			delete(b.keys, key)
		}
	}
	if len(b.keys) >= maxBusyKeys {
		clear(b.keys)
	}
}

// free records that a message is no longer held.
func (b *busyKeys) free(key inbox.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.keys, key)
}

// heldFor returns an error if messages were held for longer than limit. The lock is held.
func (b *busyKeys) heldFor(now time.Time, limit time.Duration) error {
	n, longest := 0, time.Duration(0)
	for _, k := range b.keys {
		if held := now.Sub(k.first); held > limit && !k.over(now) {
			n, longest = n+1, max(longest, held)
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d messages are not handled, one of them for %v: %w", n, longest.Round(time.Second), errHeld)
}

// health returns nil, or an error about the loop of the given name while messages are held for
// longer than limit.
func (b *busyKeys) health(name string, now time.Time, limit time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.heldFor(now, limit); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// holdLimit is how long a handler of this consumer may hold the inbox row of its message.
func (c *receiver) holdLimit() time.Duration { return c.cfg.HandlerTimeout + c.cfg.StoreTimeout }

// busy defers a delivery whose message is being handled elsewhere.
func (c *receiver) busy(ctx context.Context, m *waybill.Message, cause error) verdict {
	wait, held := c.busyKeys.note(inbox.KeyOf(c.name, m), time.Now(), c.holdLimit())
	if after, ok := waybill.AfterOf(cause); ok {
		wait = after
	}
	v := c.tellBusy(ctx, m, wait, held)
	v.uncounted = true
	return v
}
