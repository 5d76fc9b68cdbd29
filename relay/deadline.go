package relay

import (
	"context"
	"fmt"
	"sync/atomic"
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

// bounded is a source whose calls all have deadlines. One that is not answered, because its
// connection has gone without a word, then ends, and the next one takes another connection.
type bounded struct {
	src                                           Source
	ahead                                         AheadSource // src, nil if it is none
	renew, leave, claim, settle, release, counted patience
	looked, maintain                              patience
}

var _ AheadSource = (*bounded)(nil)

func newBounded(src Source, cfg *Config) *bounded {
	long := cfg.callTimeout()
	ahead, _ := src.(AheadSource)
	return &bounded{
		src: src, ahead: ahead,
		// A renewal that outlasts the interval is of no use, and must not keep the next one back.
		renew: patience{limit: cfg.LeaseTTL - cfg.PublishTimeout}, leave: patience{limit: cfg.PublishTimeout},
		claim: patience{limit: long, grows: true}, settle: patience{limit: long, grows: true},
		release: patience{limit: long, grows: true}, counted: patience{limit: long, grows: true},
		looked: patience{limit: long}, maintain: patience{limit: maintainTimeout},
	}
}

// callTimeout is how long a call to the store may take: as long as a lease holds.
func (c *Config) callTimeout() time.Duration { return max(leastTimeout, c.LeaseTTL) }

// patience is how long calls of one kind may take.
type patience struct {
	limit time.Duration
	grows bool
	late  atomic.Int32 // calls in a row that ended at their deadline
}

func (p *patience) call(ctx context.Context, do func(ctx context.Context) error) error {
	limit := p.limit
	if p.grows {
		limit <<= min(p.late.Load(), maxTimeouts)
	}
	call, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := do(call)
	if err == nil || call.Err() == nil || ctx.Err() != nil {
		p.late.Store(0)
		return err
	}
	p.late.Add(1)
	return waybill.UnavailableError(fmt.Errorf("no answer within %v: %w", limit, err))
}

func (b *bounded) RenewLanes(ctx context.Context, req LeaseRequest) (lease Lease, err error) {
	err = b.renew.call(ctx, func(ctx context.Context) (err error) {
		lease, err = b.src.RenewLanes(ctx, req)
		return err
	})
	return lease, err
}

func (b *bounded) LeaveLanes(ctx context.Context, node string) error {
	return b.leave.call(ctx, func(ctx context.Context) error { return b.src.LeaveLanes(ctx, node) })
}

func (b *bounded) ClaimMessages(ctx context.Context, req ClaimRequest) (claims []Claim, err error) {
	err = b.claim.call(ctx, func(ctx context.Context) (err error) {
		claims, err = b.src.ClaimMessages(ctx, req)
		return err
	})
	return claims, err
}

func (b *bounded) SettleMessages(ctx context.Context, req SettleRequest) (lost []int, err error) {
	err = b.settle.call(ctx, func(ctx context.Context) (err error) {
		lost, err = b.src.SettleMessages(ctx, req)
		return err
	})
	return lost, err
}

func (b *bounded) CountParked(ctx context.Context, lanes []Lane) (keys, messages int, err error) {
	err = b.counted.call(ctx, func(ctx context.Context) (err error) {
		keys, messages, err = b.src.CountParked(ctx, lanes)
		return err
	})
	return keys, messages, err
}

func (b *bounded) ReleaseScheduled(ctx context.Context, limit int) (n int, err error) {
	err = b.release.call(ctx, func(ctx context.Context) (err error) {
		n, err = b.src.ReleaseScheduled(ctx, limit)
		return err
	})
	return n, err
}

func (b *bounded) MaintainArchive(ctx context.Context, req MaintainRequest) (done Maintained, err error) {
	err = b.maintain.call(ctx, func(ctx context.Context) (err error) {
		done, err = b.src.MaintainArchive(ctx, req)
		return err
	})
	return done, err
}

// AwaitMessages has the deadline of its caller, the next poll.
func (b *bounded) AwaitMessages(ctx context.Context, node string) error {
	return b.src.AwaitMessages(ctx, node)
}
