package relay

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/relaycore"
)

func (r *run) renew(cmd relaycore.Renew) {
	r.nameBefore(r.work)
	lease, err := call(r.work, &r.limits.renew, func(ctx context.Context) (Lease, error) {
		return r.src.RenewLanes(ctx, LeaseRequest{Node: r.cfg.Node, Join: cmd.Join, TTL: r.cfg.LeaseTTL, Give: cmd.Give})
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

func lanesOf(lanes []relaycore.Lane) []Lane {
	list := make([]Lane, len(lanes))
	for i, l := range lanes {
		list[i] = Lane(l)
	}
	return list
}

// unlessStopping returns err, or nil if it is that reading has been told to end.
func (r *run) unlessStopping(err error) error {
	if r.reading.Err() != nil {
		return nil
	}
	return err
}

func (r *run) claim(cmd relaycore.Claim) {
	req := ClaimRequest{
		Lanes: lanesOf(cmd.Lanes), Limit: cmd.Limit, Bytes: cmd.Bytes, Due: cmd.Due, DueOnly: cmd.DueOnly,
		Held: cmd.Held, HeldFor: cmd.HeldFor, Again: cmd.Again, Paused: cmd.Paused,
	}
	claims, err := call(r.reading, &r.limits.claim, func(ctx context.Context) ([]Claim, error) {
		return r.src.ClaimMessages(ctx, req)
	})
	if err = r.unlessStopping(err); err != nil {
		r.handle(relaycore.ClaimFailed{Err: err})
		return
	}
	r.handle(relaycore.Claimed{Messages: r.described(claims), Full: req.Full(claims)})
}

func (r *run) claimAhead(cmd relaycore.ClaimAhead) {
	without, known := r.cfg.Recorder.reveal(cmd.Without)
	if !known {
		r.handle(relaycore.ClaimedAhead{Reached: cmd.Above})
		return
	}
	var reached int64
	claims, err := call(r.reading, &r.limits.look, func(ctx context.Context) (claims []Claim, err error) {
		claims, reached, err = r.ahead.ClaimAhead(ctx, AheadRequest{
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

func (r *run) described(claims []Claim) []relaycore.Message {
	messages := make([]relaycore.Message, len(claims))
	for i := range claims {
		r.describe(&messages[i], &claims[i])
	}
	r.cfg.Recorder.conceal(messages)
	return messages
}

// describe says of a claimed row what the core needs to know, and asks which destinations match it.
func (r *Relay) describe(m *relaycore.Message, c *Claim) {
	*m = relaycore.Message{
		ID: c.Message.ID, Position: c.Position, Lane: relaycore.Lane(c.Lane), Dest: c.Destination, Topic: c.Message.Address(), Key: c.Message.Key,
		Tenant: c.Message.Tenant, Attempts: c.Attempts, Life: c.Life, Size: weight(c), Waiting: c.Waiting, Blocked: c.Blocked,
		Malformed: c.Malformed, Expired: c.Expired, ExpiresIn: c.ExpiresIn, DelayFor: c.DelayFor, Tag: c,
	}
	if c.Malformed != nil {
		return
	}
	if !c.Waiting {
		m.Routes, m.RouteErr = r.route(&c.Message)
	} else if d := r.dests[c.Destination]; d != nil {
		_, m.RouteErr = d.matches(&c.Message)
	}
}

// route returns the destinations that match a message, and, if it is only one, whether asking it failed.
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

// weight is about what a message takes in memory.
func weight(c *Claim) int {
	w := relaycore.EmptySize + len(c.Message.Payload)
	for name, value := range c.Message.Headers {
		w += len(name) + len(value)
	}
	return w
}
