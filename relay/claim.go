package relay

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/loop"
)

// claimRound waits for a free slot and an idle lane, claims one batch, and sends it on its
// way; if there is nothing it sleeps. ctx ends the round, work what it has started.
func (r *Relay) claimRound(ctx, work context.Context) error {
	if wait := r.blockedFor(); wait > 0 {
		r.sleep(ctx, wait)
		return nil
	}
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	n, err := r.claimBatch(ctx, work)
	if n == 0 {
		<-r.slots
	}
	if err == nil && n < r.cfg.BatchSize { // the idle lanes are read to their end
		r.sleep(ctx, r.due.next(r.cfg.PollInterval))
	}
	return err
}

// blockedFor returns how long nothing can be sent: because no lease holds for long enough,
// or because every destination is paused.
func (r *Relay) blockedFor() time.Duration {
	if r.lanes.remaining() <= r.cfg.PublishTimeout {
		return r.cfg.RenewInterval / 8
	}
	wait := r.cfg.PollInterval
	for _, o := range r.outlets {
		wait = min(wait, o.paused())
	}
	return wait
}

// claimBatch claims from the idle lanes, starts a batch if there was something, and returns
// how many messages it has.
func (r *Relay) claimBatch(ctx, work context.Context) (int, error) {
	if r.scheduleDue() {
		if _, err := r.src.ReleaseScheduled(ctx, r.cfg.BatchSize); err != nil {
			return 0, err
		}
	}
	lanes := r.lanes.idle()
	if len(lanes) == 0 {
		return 0, nil
	}
	began := time.Now()
	claims, err := r.src.ClaimMessages(ctx, ClaimRequest{Lanes: lanes, Limit: r.cfg.BatchSize, Paused: r.pausedNames()})
	if err != nil || len(claims) == 0 {
		r.lanes.release(lanes)
		return 0, err
	}
	r.observe(ctx, waybill.Event{Op: waybill.OpClaim, Count: len(claims), Duration: time.Since(began)})
	used := usedLanes(claims)
	r.lanes.release(unused(lanes, used))
	r.lanes.startAfter(claims[len(claims)-1].Lane.Number)
	r.start(work, claims, used)
	return len(claims), nil
}

// scheduleDue reports whether to look for scheduled messages: at each poll.
func (r *Relay) scheduleDue() bool {
	now := time.Now()
	if now.Before(r.nextSchedule) && !r.due.passed() {
		return false
	}
	r.nextSchedule = now.Add(r.cfg.PollInterval)
	return true
}

func (r *Relay) pausedNames() []string {
	var names []string
	for name, o := range r.outlets {
		if o.paused() > 0 {
			names = append(names, name)
		}
	}
	return names
}

func usedLanes(claims []Claim) []Lane {
	var used []Lane
	seen := make(map[int]bool)
	for i := range claims {
		if l := claims[i].Lane; !seen[l.Number] {
			seen[l.Number] = true
			used = append(used, l)
		}
	}
	return used
}

func unused(lanes, used []Lane) []Lane {
	set := make(map[int]bool, len(used))
	for _, l := range used {
		set[l.Number] = true
	}
	rest := make([]Lane, 0, len(lanes))
	for _, l := range lanes {
		if !set[l.Number] {
			rest = append(rest, l)
		}
	}
	return rest
}

// sleep waits for limit, or until there is a wake-up or a batch has ended.
func (r *Relay) sleep(ctx context.Context, limit time.Duration) {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-r.wakeups:
	case <-r.pokes:
	case <-t.C:
	case <-ctx.Done():
	}
}

// start runs a batch in a goroutine of its own. Its lanes stay busy until it is settled.
func (r *Relay) start(work context.Context, claims []Claim, lanes []Lane) {
	r.batches.Go(func() {
		defer func() {
			r.lanes.release(lanes)
			<-r.slots
			r.poke()
		}()
		b := &batch{Relay: r, claims: claims}
		if err := loop.Protect(func() error { return b.run(work) }); err != nil {
			r.observe(work, waybill.Event{Op: waybill.OpLoop, Err: err})
			loop.Sleep(work, pauseBase) // lanes busy meanwhile: no hot loop on the same rows
		}
	})
}
