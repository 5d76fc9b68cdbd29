package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/relaycore"
	"github.com/waybill-go/waybill/observe"
)

func (r *run) renew(cmd relaycore.Renew) {
	r.nameBefore(r.work)
	lease, err := call(r.work, &r.limits.renew, func(ctx context.Context) (contract.Lease, error) {
		return r.src.RenewLanes(ctx, contract.LeaseRequest{Node: r.cfg.Node, Join: cmd.Join, TTL: r.cfg.LeaseTTL, Give: cmd.Give})
	})
	if err != nil {
		r.handle(relaycore.LeaseFailed{Lost: errors.Is(err, waybill.ErrLeaseLost), Err: err})
		return
	}
	r.nameAfter(r.work)
	lanes := make([]relaycore.Lane, len(lease.Lanes))
	for i, l := range lease.Lanes {
		lanes[i] = relaycore.Lane(l)
	}
	r.handle(relaycore.Leased{Lanes: lanes, Share: lease.Share, Total: lease.Total})
}

func (r *run) release(cmd relaycore.Release) {
	n, err := call(r.reading, &r.limits.release, func(ctx context.Context) (int, error) {
		return r.src.ReleaseScheduled(ctx, cmd.Limit)
	})
	r.handle(relaycore.Released{Count: n, Err: r.unlessStopping(err)})
}

func (r *run) count(cmd relaycore.Count) {
	began := time.Now()
	e, err := call(r.reading, &r.limits.count, func(ctx context.Context) (relaycore.Counted, error) {
		keys, messages, err := r.src.CountParked(ctx, lanesOf(cmd.Lanes))
		return relaycore.Counted{Keys: keys, Messages: messages}, err
	})
	e.Took, e.Err = time.Since(began), r.unlessStopping(err)
	r.handle(e)
}

func lanesOf(lanes []relaycore.Lane) []contract.Lane {
	list := make([]contract.Lane, len(lanes))
	for i, l := range lanes {
		list[i] = contract.Lane(l)
	}
	return list
}

// unlessStopping returns err, or nil if its cause is that reading was stopped.
func (r *run) unlessStopping(err error) error {
	if r.reading.Err() != nil {
		return nil
	}
	return err
}

func (r *run) claim(cmd relaycore.Claim) {
	req := contract.ClaimRequest{
		Lanes: lanesOf(cmd.Lanes), Limit: cmd.Limit, Bytes: cmd.Bytes, Due: cmd.Due, DueOnly: cmd.DueOnly,
		Held: cmd.Held, HeldFor: cmd.HeldFor, Again: cmd.Again, Paused: cmd.Paused,
	}
	claims, err := call(r.reading, &r.limits.claim, func(ctx context.Context) ([]contract.Claim, error) {
		return r.src.ClaimMessages(ctx, req)
	})
	if err = r.unlessStopping(err); err != nil {
		r.handle(relaycore.ClaimFailed{Err: err})
		return
	}
	r.handle(relaycore.Claimed{Messages: r.described(claims), Full: req.Full(claims)})
}

func (r *run) claimAhead(cmd relaycore.ClaimAhead) {
	without, known := r.reveal(cmd.Without)
	if !known {
		r.handle(relaycore.ClaimedAhead{Reached: cmd.Above})
		return
	}
	var reached int64
	claims, err := call(r.reading, &r.limits.look, func(ctx context.Context) (claims []contract.Claim, err error) {
		claims, reached, err = r.ahead.ClaimAhead(ctx, contract.AheadRequest{
			Lanes: lanesOf(cmd.Lanes), Without: without, Above: cmd.Above, Span: cmd.Span, Limit: cmd.Limit, Bytes: cmd.Bytes, Held: cmd.Held,
		})
		return claims, err
	})
	r.handle(relaycore.ClaimedAhead{Messages: r.described(claims), Reached: reached, Err: r.unlessStopping(err)})
}

func (r *run) await(ctx context.Context, cancel func()) {
	defer cancel()
	err := r.src.AwaitMessages(ctx, r.cfg.Node) // its deadline is the next poll
	if ctx.Err() != nil {
		err = nil
	}
	r.handle(relaycore.Woken{Err: err})
}

func (r *run) described(claims []contract.Claim) []relaycore.Message {
	messages := make([]relaycore.Message, len(claims))
	for i := range claims {
		r.describe(&messages[i], &claims[i])
	}
	r.conceal(messages)
	return messages
}

// describe fills in what the core needs to know about a claimed row, and finds the destinations that match it.
func (r *Relay) describe(m *relaycore.Message, c *contract.Claim) {
	*m = relaycore.Message{
		ID: c.Message.ID, Position: c.Position, Lane: relaycore.Lane(c.Lane), Dest: c.Destination, Topic: c.Message.Address(), Key: c.Message.Key,
		Tenant: c.Message.Tenant, Attempts: c.Attempts, Life: c.Life, Size: weight(c), Waiting: c.Waiting, Blocked: c.Blocked,
		Malformed: c.Malformed, Expired: c.Expired, ExpiresIn: c.ExpiresIn, DelayFor: c.DelayFor, Tag: c,
	}
	if c.Malformed != nil {
		return
	}
	if d := r.dests[c.Destination]; c.Waiting && d != nil {
		_, m.RouteErr = d.matches(&c.Message)
	} else if !c.Waiting || c.Destination == "" {
		m.Routes, m.RouteErr = r.route(&c.Message)
	}
}

// route returns the destinations that match a message, and, if it is only one, the error of matching it.
func (r *Relay) route(m *waybill.Message) (names []string, err error) {
	if r.undivided != nil {
		return r.undivided, nil
	}
	for _, d := range r.main {
		yes, failed := d.matches(m)
		if yes {
			names, err = append(names, d.Name), failed
		}
	}
	if len(names) != 1 {
		err = nil
	}
	return names, err
}

// weight returns the approximate size of a message in memory.
func weight(c *contract.Claim) int {
	w := relaycore.EmptySize + len(c.Message.Payload)
	for name, value := range c.Message.Headers {
		w += len(name) + len(value)
	}
	return w
}

func (r *run) settle(cmd relaycore.Settle) {
	req := contract.SettleRequest{Node: r.cfg.Node, Archive: r.cfg.Retention != KeepNothing, Settlements: make([]contract.Settlement, len(cmd.Settlements))}
	for i := range cmd.Settlements {
		req.Settlements[i] = settlementOf(&cmd.Settlements[i])
	}
	began := time.Now()
	lost, err := call(r.work, &r.limits.settle, func(ctx context.Context) ([]int, error) {
		return r.src.SettleMessages(ctx, req)
	})
	switch {
	case err == nil:
		r.handle(relaycore.Settled{Lost: lost, Took: time.Since(began)})
	case r.work.Err() == nil:
		r.handle(relaycore.SettleFailed{Refused: refusesRows(err), Err: err})
	}
}

func claimOf(m *relaycore.Message) *contract.Claim { return m.Tag.(*contract.Claim) }

// settlementOf returns an outcome in the form for the store. The payload of a message that will not be
// sent is dropped: the store has it.
func settlementOf(st *relaycore.Settlement) contract.Settlement {
	c := claimOf(st.Message)
	c.Destination = st.Message.Dest
	if st.Message.Deferred {
		c.Message.Payload = nil
	}
	return contract.Settlement{
		Claim: c, Outcome: contract.Outcome(st.Outcome), After: st.After, Behind: st.Behind, Alone: st.Alone, Park: st.Park,
		Attempts: st.Attempts, Life: st.Life, Reason: st.Reason, Error: observe.ErrorText(st.Err), Took: st.Took, Destinations: st.To,
	}
}

// refusesRows reports whether a settlement failed because of its content, and not because the store
// was unavailable or in conflict with another transaction.
func refusesRows(err error) bool {
	kind := waybill.KindOf(err)
	return kind != waybill.Unavailable && kind != waybill.Conflict && !errors.Is(err, context.DeadlineExceeded)
}

const (
	// leastTimeout is how long a call to the store may take where leases are shorter.
	leastTimeout = 2 * time.Second
	// maxTimeouts is how often that is doubled while calls of one kind end at their deadline: the store
	// may be slow, not dead.
	maxTimeouts = 3
	// maintainTimeout is longer than a clean-up takes; the next one continues where it was interrupted.
	maintainTimeout = time.Hour
)

// limits are the timeouts of the repeated calls to the store. A call that is not answered, because
// its connection is dead, then ends, and the next one uses another connection.
type limits struct {
	renew, claim, settle, release, count, look patience
}

func newLimits(cfg *Config) *limits {
	long := patience{limit: cfg.callTimeout(), grows: true}
	return &limits{
		// A renewal that outlasts the interval is of no use, and must not delay the next one.
		renew: patience{limit: cfg.LeaseTTL - cfg.PublishTimeout},
		claim: long, settle: long, release: long, count: long,
		look: patience{limit: cfg.callTimeout()},
	}
}

// callTimeout is how long a call to the store may take: as long as a lease lasts.
func (c *Config) callTimeout() time.Duration { return max(leastTimeout, c.LeaseTTL) }

// patience is the timeout for calls of one kind, which are made one at a time.
type patience struct {
	limit time.Duration
	grows bool
	late  int // calls in a row that ended at their deadline
}

// call makes a call to the store with a deadline.
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
