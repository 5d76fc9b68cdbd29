package consumer

import (
	"context"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/observe"
)

// hold keeps a lease while a handler runs. The handler's context ends when somebody else has
// the key, and in any case before the lease ends: by this process's clock, counted from before
// the store was asked.
//
//	asked ──── ⅓ renew ──── ⅔ renew ──── ⅚ handler's context ends ── lease ends
type hold struct {
	c     *Leased
	lease lease.Lease
	end   context.CancelCauseFunc // of the handler's context
	timer *time.Timer             // calls end
	stop  context.CancelFunc      // ends the renewals
	done  sync.WaitGroup
	lost  bool // somebody else has the key; to be read when done
}

// hold returns a context for the handler of a message, and what keeps the lease until close
// is called; nil if the lease is about to end already.
func (c *Leased) hold(work context.Context, m leasedMessage) (context.Context, *hold) {
	left := untilMargin(m.asked, m.lasts)
	if left <= 0 {
		return nil, nil
	}
	ctx, end := context.WithCancelCause(lease.NewContext(work, m.lease))
	renewing, stop := context.WithCancel(context.WithoutCancel(work))
	h := &hold{c: c, lease: m.lease, end: end, stop: stop}
	h.timer = time.AfterFunc(left, func() { end(waybill.UnavailableError(errLeaseEnds)) })
	h.done.Go(func() { h.renew(renewing, m.lasts) })
	return ctx, h
}

// untilMargin returns the time until a sixth of a lease is left.
func untilMargin(asked time.Time, lasts time.Duration) time.Duration {
	return time.Until(asked.Add(lasts - lasts/6))
}

// renew renews the lease at each third of the time that it lasts, and sooner after a failure.
// It continues after the handler's context has ended: the handler may still be running.
func (h *hold) renew(ctx context.Context, lasts time.Duration) {
	for wait := lasts / 3; ; {
		loop.Sleep(ctx, wait)
		asked := time.Now()
		answer, err := h.ask(ctx, lasts/4)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			wait = lasts / 12
		case answer.Status == lease.Acquired:
			lasts = answer.Remaining
			wait = lasts / 3
			h.timer.Reset(untilMargin(asked, lasts))
		default:
			h.lost = true
			h.end(waybill.UnavailableError(errLeaseLost))
			return
		}
	}
}

func (h *hold) ask(ctx context.Context, timeout time.Duration) (lease.Answer, error) {
	asking, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answer, err := h.c.store.RenewLease(asking, h.lease, h.c.leases.TTL)
	if err != nil && ctx.Err() == nil {
		name := "consumer " + h.c.name + " renew"
		h.c.cfg.Observer.Observe(ctx, observe.Event{Op: observe.OpLoop, Name: name, Loop: name, Consumer: h.c.name, Err: err})
	}
	return answer, err
}

// close ends the renewals, and reports whether somebody else has the key.
func (h *hold) close() (lost bool) {
	h.stop()
	h.done.Wait()
	h.timer.Stop()
	h.end(nil)
	return h.lost
}
