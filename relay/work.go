package relay

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/relaycore"
)

// handle tells the core what has happened, starts what it wants done, each in a goroutine of its own
// that comes back here with the answer, and passes on what it reports. Nothing is decided outside the
// core.
func (r *Relay) handle(e relaycore.Event) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return
	}
	now := time.Since(r.began)
	var reports []relaycore.Report
	r.recorder.Before(now, e)
	commands := r.core.Step(now, e)
	for _, cmd := range commands {
		if report, ok := cmd.(relaycore.Report); ok {
			reports = append(reports, report)
		} else {
			r.start(cmd)
		}
	}
	next := r.core.Next()
	r.recorder.After(now, commands, next)
	r.timer.Reset(max(0, next-now))
	if r.core.Done() && !r.isDone {
		r.isDone = true
		close(r.done)
	}
	r.mu.Unlock()
	for _, report := range reports {
		r.report(report)
	}
}

// start begins to carry out a command. The caller holds the lock.
func (r *Relay) start(cmd relaycore.Command) {
	switch cmd := cmd.(type) {
	case relaycore.Renew:
		r.workers.Go(func() { r.renew(cmd) })
	case relaycore.Release:
		r.workers.Go(func() { r.release(cmd) })
	case relaycore.Count:
		r.workers.Go(func() { r.count(cmd) })
	case relaycore.Claim:
		r.workers.Go(func() { r.claim(cmd) })
	case relaycore.ClaimAhead:
		r.workers.Go(func() { r.claimAhead(cmd) })
	case relaycore.Await:
		ctx, cancel := context.WithDeadline(r.reading, r.began.Add(cmd.Until))
		r.endAwait = cancel
		r.workers.Go(func() { r.await(ctx, cancel) })
	case relaycore.EndAwait:
		r.endAwait()
	case relaycore.Publish:
		o := r.outlets[cmd.Batch.Dest]
		ctx, cut := context.WithCancel(r.work)
		r.cuts[cmd.Batch] = cut
		before, sent := o.sent, make(chan struct{})
		o.sent = sent
		r.workers.Go(func() { r.publish(ctx, cmd.Batch, o, before, sent) })
	case relaycore.Cut:
		r.cuts[cmd.Batch]()
	case relaycore.Settle:
		r.workers.Go(func() { r.settle(cmd) })
	}
}

func (r *Relay) renew(cmd relaycore.Renew) {
	r.nameBefore(r.work)
	lease, err := r.src.RenewLanes(r.work, LeaseRequest{Node: r.cfg.Node, Join: cmd.Join, TTL: r.cfg.LeaseTTL, Give: cmd.Give})
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

func (r *Relay) release(cmd relaycore.Release) {
	n, err := r.src.ReleaseScheduled(r.reading, cmd.Limit)
	r.handle(relaycore.Released{Count: n, Err: r.unlessStopping(err)})
}

func (r *Relay) count(cmd relaycore.Count) {
	began := time.Now()
	keys, messages, err := r.src.CountParked(r.reading, lanesOf(cmd.Lanes))
	r.handle(relaycore.Counted{Keys: keys, Messages: messages, Took: time.Since(began), Err: r.unlessStopping(err)})
}

func lanesOf(lanes []relaycore.Lane) []Lane {
	list := make([]Lane, len(lanes))
	for i, l := range lanes {
		list[i] = Lane(l)
	}
	return list
}

// unlessStopping returns err, or nil if it is that reading has been told to end.
func (r *Relay) unlessStopping(err error) error {
	if r.reading.Err() != nil {
		return nil
	}
	return err
}

func (r *Relay) claim(cmd relaycore.Claim) {
	req := ClaimRequest{
		Lanes: lanesOf(cmd.Lanes), Limit: cmd.Limit, Bytes: cmd.Bytes, Due: cmd.Due, DueOnly: cmd.DueOnly,
		Held: cmd.Held, HeldFor: cmd.HeldFor, Again: cmd.Again, Paused: cmd.Paused,
	}
	claims, err := r.src.ClaimMessages(r.reading, req)
	if err != nil && r.reading.Err() == nil {
		r.handle(relaycore.ClaimFailed{Err: err})
		return
	}
	r.handle(relaycore.Claimed{Messages: r.described(claims), Full: req.Full(claims)})
}

func (r *Relay) described(claims []Claim) []relaycore.Message {
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
	} else if o := r.outlets[c.Destination]; o != nil {
		_, m.RouteErr = o.matches(&c.Message)
	}
}

// route returns the destinations that match a message, and, if it is only one, whether asking it failed.
func (r *Relay) route(m *waybill.Message) (names []string, err error) {
	if r.undivided != nil {
		return r.undivided, nil
	}
	for _, o := range r.main {
		yes, failed := o.matches(m)
		if yes {
			names, err = append(names, o.Name), failed
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

func (r *Relay) await(ctx context.Context, cancel func()) {
	defer cancel()
	err := r.src.AwaitMessages(ctx, r.cfg.Node)
	if ctx.Err() != nil {
		err = nil
	}
	r.handle(relaycore.Woken{Err: err})
}

// publish sends a batch. Batches are handed to the publisher in order, but for one that takes long.
func (r *Relay) publish(ctx context.Context, b *relaycore.Batch, o *outlet, before, sent chan struct{}) {
	r.awaitTurn(ctx, before)
	limited, cancel := context.WithTimeout(ctx, b.Limit)
	defer cancel()
	out := outgoing(b, o.Structured)
	msgs := make([]*waybill.Message, len(out))
	for i := range out {
		msgs[i] = out[i].Message
	}
	limited, end := r.cfg.Observer.Start(waybill.WithName(limited, r.cfg.Node), waybill.OpPublish, msgs...)
	handedOver := false
	next := func() {
		if !handedOver {
			handedOver = true
			close(sent)
		}
	}
	errs := o.send(limited, out, next)
	next()
	end(waybill.BatchError(errs).Err())
	answer := relaycore.Answered{Batch: b, Results: r.results(o, msgs, errs), Window: dedupWindow(o.Publisher)}
	r.mu.Lock()
	r.cuts[b]()
	delete(r.cuts, b)
	r.mu.Unlock()
	r.handle(answer)
}

// awaitTurn waits until the batch before was handed over, or takes long.
func (r *Relay) awaitTurn(ctx context.Context, before chan struct{}) {
	if before == nil {
		return
	}
	select {
	case <-before:
		return
	default:
	}
	limit := time.NewTimer(min(r.cfg.PublishTimeout/4, time.Second))
	defer limit.Stop()
	select {
	case <-before:
	case <-limit.C:
	case <-ctx.Done():
	}
}

// results says what errors of a publisher mean, and which followers get what was accepted. They are nil
// if all is well and nobody follows.
func (r *Relay) results(o *outlet, msgs []*waybill.Message, errs []error) []relaycore.Result {
	follows := len(r.cfg.Followers) > 0 && !o.follower
	if !follows && waybill.BatchError(errs).Err() == nil {
		return nil
	}
	results := make([]relaycore.Result, len(errs))
	for i, err := range errs {
		if err != nil {
			results[i] = resultOf(err)
		} else if follows {
			results[i].Followers = r.followersOf(msgs[i])
		}
	}
	return results
}

// resultOf says what an error of a publisher means.
func resultOf(err error) relaycore.Result {
	after, _ := waybill.AfterOf(err)
	res := relaycore.Result{Err: err, Kind: waybill.KindOf(err), After: after, Swallowed: errors.Is(err, waybill.ErrSwallowed), Unsure: unanswered(err)}
	switch res.Kind {
	case waybill.Permanent:
		res.Reason = waybill.ReasonOf(err)
	case waybill.Unavailable:
		res.Lost = errors.Is(err, waybill.ErrConnectionLost)
	}
	return res
}

func (r *Relay) followersOf(m *waybill.Message) (names []string) {
	for _, f := range r.cfg.Followers {
		if yes, _ := r.outlets[f.Name].matches(m); yes {
			names = append(names, f.Name)
		}
	}
	return names
}

func claimOf(m *relaycore.Message) *Claim { return m.Tag.(*Claim) }

func (r *Relay) settle(cmd relaycore.Settle) {
	req := SettleRequest{Node: r.cfg.Node, Archive: r.cfg.Retention != KeepNothing, Settlements: make([]Settlement, len(cmd.Settlements))}
	for i := range cmd.Settlements {
		req.Settlements[i] = settlementOf(&cmd.Settlements[i])
	}
	began := time.Now()
	lost, err := r.src.SettleMessages(r.work, req)
	switch {
	case err == nil:
		r.handle(relaycore.Settled{Lost: lost, Took: time.Since(began)})
	case r.work.Err() == nil:
		r.handle(relaycore.SettleFailed{Refused: refusesRows(err), Err: err})
	}
}

// settlementOf returns what the store is told of an outcome. The payload of a message that is not going
// to be sent is dropped: the store has it.
func settlementOf(st *relaycore.Settlement) Settlement {
	c := claimOf(st.Message)
	c.Destination = st.Message.Dest
	if st.Message.Deferred {
		c.Message.Payload = nil
	}
	return Settlement{
		Claim: c, Outcome: Outcome(st.Outcome), After: st.After, Behind: st.Behind, Alone: st.Alone, Park: st.Park,
		Attempts: st.Attempts, Life: st.Life, Reason: st.Reason, Error: waybill.ErrorText(st.Err), Took: st.Took, Destinations: st.To,
	}
}

// refusesRows reports whether a settlement failed for what is in it, and not because the store
// could not be asked or met somebody else.
func refusesRows(err error) bool {
	kind := waybill.KindOf(err)
	return err != nil && kind != waybill.Unavailable && kind != waybill.Conflict && !errors.Is(err, context.DeadlineExceeded)
}
