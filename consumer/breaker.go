package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/loop"
)

// errAllFail is the cause of a pause when the handler fails for every message.
var errAllFail = errors.New("consumer: the handler has failed for one message after the other")

const (
	minRest = time.Second // of the first pause; it is doubled up to maxRest
	maxRest = time.Minute
)

// breaker counts different messages that have failed with nothing succeeding between them. When
// there are too many it opens: the consumer pauses, and then handles messages one by one until one
// succeeds.
type breaker struct {
	mu     sync.Mutex
	failed map[inbox.Key]bool
	rests  int    // one after the other
	trying bool   // handling messages one by one
	leave  func() // releases the slots of the others
}

// fails counts a message whose attempt has failed, and returns whether that opens the breaker.
func (b *breaker) fails(key inbox.Key, limit int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if limit < 0 {
		return false
	}
	if b.failed == nil {
		b.failed = make(map[inbox.Key]bool)
	}
	b.failed[key] = true
	if !b.trying && len(b.failed) < limit {
		return false
	}
	b.stopTrying()
	return true
}

// succeeds closes the breaker.
func (b *breaker) succeeds() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rests = 0
	clear(b.failed)
	b.stopTrying()
}

// stopTrying lets the other handlers run again. The lock is held.
func (b *breaker) stopTrying() {
	if b.trying = false; b.leave != nil {
		b.leave()
		b.leave = nil
	}
}

// rest pauses, and then takes the slots of all handlers but one. It returns false if ctx ends.
func (b *breaker) rest(ctx context.Context, c *receiver) bool {
	b.mu.Lock()
	wait := min(minRest<<min(b.rests, 10), maxRest)
	b.rests++
	b.mu.Unlock()
	loop.Sleep(ctx, wait)
	places := 0
	for places < cap(c.handlers)-1 && c.acquire(ctx) {
		places++
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = true
	b.leave = func() {
		for range places {
			c.releaseHandler()
		}
	}
	if ctx.Err() != nil {
		b.stopTrying()
	}
	return ctx.Err() == nil
}

// judge reports the result of a handler's attempt to the breaker. Errors with a kind say nothing
// about other messages.
func (c *receiver) judge(m *waybill.Message, outcome inbox.Outcome, err error) {
	switch {
	case err == nil && outcome == inbox.Processed:
		c.breaker.succeeds()
	case waybill.IsTransient(err) && c.breaker.fails(inbox.KeyOf(c.name, m), c.cfg.PauseAfter):
		c.pause(fmt.Errorf("%w, the last time with: %w", errAllFail, err))
	}
}
