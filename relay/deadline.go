package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

const (
	// leastTimeout is how long a call to the store may take where leases are shorter.
	leastTimeout = 2 * time.Second
	// maxTimeouts is how often that is doubled while calls of one kind end at their deadline: the
	// store may be slow, not silent.
	maxTimeouts = 3
	// maintainTimeout is longer than a clean-up takes; the next one goes on where it was ended.
	maintainTimeout = time.Hour
)

// limits are how long the repeated calls to the store may take. One that is not answered, because its
// connection has gone without a word, then ends, and the next one takes another connection.
type limits struct {
	renew, claim, settle, release, count, look patience
}

func newLimits(cfg *Config) *limits {
	long := patience{limit: cfg.callTimeout(), grows: true}
	return &limits{
		// A renewal that outlasts the interval is of no use, and must not keep the next one back.
		renew: patience{limit: cfg.LeaseTTL - cfg.PublishTimeout},
		claim: long, settle: long, release: long, count: long,
		look: patience{limit: cfg.callTimeout()},
	}
}

// callTimeout is how long a call to the store may take: as long as a lease holds.
func (c *Config) callTimeout() time.Duration { return max(leastTimeout, c.LeaseTTL) }

// patience is how long calls of one kind may take, of which one is made at a time.
type patience struct {
	limit time.Duration
	grows bool
	late  int // calls in a row that ended at their deadline
}

// call makes a call to the store that ends at its deadline.
func call[T any](ctx context.Context, p *patience, do func(ctx context.Context) (T, error)) (T, error) {
	limit := p.limit
	if p.grows {
		limit <<= min(p.late, maxTimeouts)
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	result, err := do(bounded)
	if err == nil || bounded.Err() == nil || ctx.Err() != nil {
		p.late = 0
		return result, err
	}
	p.late++
	return result, waybill.UnavailableError(fmt.Errorf("no answer within %v: %w", limit, err))
}
