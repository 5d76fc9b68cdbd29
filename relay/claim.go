package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/loop"
)

const (
	// So much is held in memory, so that publishing never waits for reading.
	heldBatches  = 50
	maxHeld      = 5000 // messages, unless one batch has more
	maxHeldBytes = 16 << 20

	// Claims that find little are made at most so often: together they would cost the
	// database more than the messages do.
	claimInterval = 5 * time.Millisecond
	// againInterval is how often every lane is read from its beginning.
	againInterval = 10 * time.Minute
	claimBurst    = 20
)

// claimRound claims once, and if everything there is was read it waits for more.
func (r *Relay) claimRound(ctx context.Context) error {
	if r.lanes.remaining() <= r.cfg.PublishTimeout {
		r.sleep(ctx, r.cfg.RenewInterval/8)
		return nil
	}
	limit, bytes := r.space()
	if limit == 0 {
		r.awaitRoom(ctx)
		return nil
	}
	r.fullSince = time.Time{}
	began := time.Now()
	full, err := r.claim(ctx, limit, bytes)
	if err != nil {
		return err
	}
	r.dispatch()
	if full {
		return nil
	}
	r.pacing.spend(ctx, began)
	return r.await(ctx)
}

// awaitRoom waits for a batch to end. If there is no room for long, something slow fills the
// memory.
func (r *Relay) awaitRoom(ctx context.Context) {
	if r.fullSince.IsZero() {
		r.fullSince = time.Now()
	}
	limit := r.fullSince.Add(r.setAsideAfter() / 2)
	wait, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	r.room.wait(wait)
	if ctx.Err() == nil && !time.Now().Before(limit) {
		r.relieve()
		r.fullSince = time.Time{}
	}
}

// space returns how many messages, and bytes of payload, a claim may add: a quarter of what may be
// held, so that claims are large, and the next is made while others are published and settled; none
// if there is no room for that.
func (r *Relay) space() (limit, bytes int) {
	count, held := r.backlog.load()
	quarter := max(1, r.readAhead/4)
	if count+quarter > r.readAhead || held > maxHeldBytes*3/4 {
		return 0, 0
	}
	return max(1, min(quarter, (maxHeldBytes-held)/r.weight)), maxHeldBytes - held
}

// weigh keeps about what a message takes in memory. Large ones are remembered for a while.
func (r *Relay) weigh(claims []Claim) {
	if len(claims) == 0 {
		return
	}
	sum := 0
	for i := range claims {
		sum += weight(&claims[i])
	}
	r.weight = max(sum/len(claims), r.weight/2)
}

// claim reads messages into the backlog up to a limit, and reports whether it was reached.
func (r *Relay) claim(ctx context.Context, limit, bytes int) (full bool, err error) {
	r.claims.begin()
	look, moreDue := r.lookForDue(), false
	req := ClaimRequest{Limit: limit, Bytes: bytes, Due: look || !r.busy, Paused: r.pausedNames()}
	defer func() {
		if r.busy = full; err != nil && look || moreDue {
			r.due.in(0) // look again at once
		}
		r.claims.end(err)
	}()
	if look {
		moreDue = r.release(ctx) >= r.cfg.BatchSize
	}
	if req.DueOnly, err = r.backPressure(ctx); err != nil {
		return false, err
	}
	r.readAllAgain()
	if req.Lanes, req.Again = r.claimable(); len(req.Lanes) == 0 {
		return false, nil
	}
	req.Held = r.backlog.startClaim(req.Lanes)
	defer r.backlog.endClaim()
	began := time.Now()
	claims, err := r.src.ClaimMessages(ctx, req)
	if err != nil {
		r.lanes.readAgain(req.Again...)
		r.weight = min(2*r.weight, maxHeldBytes) // it may have been too much
		return false, err
	}
	if len(claims) > 0 {
		r.observe(ctx, waybill.Event{Op: waybill.OpClaim, Count: len(claims), Duration: time.Since(began)})
	}
	full = req.Full(claims)
	moreDue = moreDue || full && allWaited(claims)
	r.weigh(claims) // while nobody else has them
	r.takeIn(claims)
	return full, nil
}

// readAllAgain makes the next claim read every lane from its beginning, from time to time: a net
// below what stores conclude about rows that they need not look at again.
func (r *Relay) readAllAgain() {
	now := time.Now()
	if now.Before(r.nextAgain) {
		return
	}
	r.nextAgain = now.Add(againInterval)
	for _, l := range r.lanes.staying() {
		r.lanes.readAgain(l.Number)
	}
}

// release lets scheduled messages go that are due. Where that fails the claim goes on without them:
// the others must not wait for one that cannot be released.
func (r *Relay) release(ctx context.Context) (released int) {
	r.releasing.begin()
	released, err := r.src.ReleaseScheduled(ctx, r.cfg.BatchSize)
	r.releasing.end(err)
	if err != nil && ctx.Err() == nil {
		r.failed(err)
		r.observe(ctx, waybill.Event{Op: waybill.OpLoop, Loop: "relay release", Err: fmt.Errorf("release scheduled messages: %w", err)})
	}
	return released
}

// allWaited reports whether a claim has found nothing but messages that waited, which come first.
func allWaited(claims []Claim) bool {
	return !slices.ContainsFunc(claims, func(c Claim) bool { return !c.Waiting })
}

// lookForDue reports whether to look for scheduled and waiting messages: at each poll, and
// when one that is known of has come due.
func (r *Relay) lookForDue() bool {
	now := time.Now()
	if now.Before(r.nextLook) && !r.due.passed() {
		return false
	}
	r.nextLook = now.Add(r.cfg.PollInterval)
	return true
}

// pausedNames returns the destinations whose waiting messages stay where they are.
func (r *Relay) pausedNames() []string {
	r.backlog.mu.Lock()
	defer r.backlog.mu.Unlock()
	var names []string
	for name, o := range r.outlets {
		if o.main.paused() > 0 {
			names = append(names, name)
		}
	}
	return names
}

// await waits until there may be something to claim, or it is time to look for what has come due.
func (r *Relay) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.parked.nap(r.due.next(max(0, time.Until(r.nextLook)))))
	defer cancel()
	stop := r.news.notify(cancel)
	defer stop()
	return r.src.AwaitMessages(ctx, r.cfg.Node)
}

// sleep waits for a while or for news.
func (r *Relay) sleep(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	r.news.wait(ctx)
}

// pacing lets claims that find little follow each other at once, but not many of them.
type pacing struct {
	credit float64
	last   time.Time
}

// spend waits until the claim that began at the given time may be followed by another.
func (p *pacing) spend(ctx context.Context, began time.Time) {
	p.credit = min(claimBurst, p.credit+float64(began.Sub(p.last))/float64(claimInterval))
	p.last = began
	if p.credit--; p.credit < 0 {
		loop.Sleep(ctx, claimInterval-time.Since(began))
	}
}
