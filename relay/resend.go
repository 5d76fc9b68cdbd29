package relay

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/loop"
)

// Deduplicator is a [Publisher] whose broker drops what is published again under a
// [Outgoing.DedupID] that it remembers. A publisher that wraps another one passes it on.
type Deduplicator interface {
	// DedupWindow returns for how long after it has stored a message the broker remembers its
	// DedupID, as far as is known without asking the server; 0 if it does not, or if that is
	// not known. It is safe for concurrent use.
	DedupWindow() time.Duration
}

// doubt is the earliest attempt of a message's life that may have reached the broker although
// the answer did not come.
type doubt struct {
	life  int
	since time.Time // when the attempt began
}

// doubtOf returns the doubt about a message in its present life. The caller holds the lock.
func (o *outlet) doubtOf(c *Claim) (d doubt, ok bool) {
	d, ok = o.doubts[c.Position]
	return d, ok && d.life == c.Life
}

// dropDoubt forgets the doubt about a message that is given up.
func (o *outlet) dropDoubt(c *Claim) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.doubts, c.Position)
}

// learnDoubt takes in the result of an attempt. A refusal says nothing about earlier attempts:
// doubt stays until the message is accepted or given up. The caller holds the lock.
func (o *outlet) learnDoubt(c *Claim, err error, began time.Time) {
	d, doubted := o.doubtOf(c)
	switch {
	case err == nil:
		if window := o.dedupWindow(); doubted && window > 0 && time.Since(d.since) > window {
			c.late = time.Since(d.since)
		}
		delete(o.doubts, c.Position)
	case waybill.IsPermanent(err):
		delete(o.doubts, c.Position)
	case !doubted && unanswered(err):
		o.doubts[c.Position] = doubt{c.Life, began}
	}
}

// unanswered reports whether a message may have reached the broker in spite of err.
func unanswered(err error) bool {
	return waybill.IsUnavailable(err) &&
		(errors.Is(err, waybill.ErrConnectionLost) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled))
}

// dedupWindow is 0, not known, if the publisher panics: the messages were sent.
func (o *outlet) dedupWindow() (window time.Duration) {
	if d, ok := o.Publisher.(Deduplicator); ok {
		_ = loop.Protect(func() error {
			window = d.DedupWindow()
			return nil
		})
	}
	return window
}
