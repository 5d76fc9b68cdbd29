package inboxhttp

import (
	"sync"
	"time"

	"github.com/waybill-go/waybill/internal/span"
)

// bucket is a token bucket. It fills by rate tokens per second up to the tokens of one second.
type bucket struct {
	rate float64

	mu    sync.Mutex
	level float64
	at    time.Time // of the level
}

// newBucket returns a full bucket, nil for no limit.
func newBucket(rate int) *bucket {
	if rate == 0 {
		return nil
	}
	return &bucket{rate: float64(rate), level: float64(rate), at: time.Now()}
}

// take takes a token and returns 0, or returns how long to wait if there is none.
func (b *bucket) take() time.Duration {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.level = min(b.rate, b.level+b.rate*now.Sub(b.at).Seconds())
	b.at = now
	if b.level < 1 {
		return max(time.Millisecond, span.Of((1-b.level)/b.rate, time.Second))
	}
	b.level--
	return 0
}

// spend takes n more tokens, which may make the level negative: a batch that is larger than the
// bucket is allowed, and later requests wait.
func (b *bucket) spend(n int) {
	if b == nil || n <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.level -= float64(n)
}
