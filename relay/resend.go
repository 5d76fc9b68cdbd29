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

// unanswered reports whether a message may have reached the broker in spite of err.
func unanswered(err error) bool {
	return waybill.IsUnavailable(err) &&
		(errors.Is(err, waybill.ErrConnectionLost) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled))
}

// dedupWindow is 0, not known, if the publisher panics: the messages were sent.
func dedupWindow(p Publisher) (window time.Duration) {
	if d, ok := p.(Deduplicator); ok {
		_ = loop.Protect(func() error {
			window = d.DedupWindow()
			return nil
		})
	}
	return window
}
