package idempotency

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill/inbox/lease"
)

var errLeaseEnds = errors.New("idempotency: the lease could not be renewed in time")

// hold is a lease while its handler runs.
type hold struct {
	*guard
	lease lease.Lease
	asked time.Time // when it was requested, by our clock: it ends no earlier than that plus LeaseTTL
}

// keep renews the lease while fn runs, even if the client has disconnected. The context of fn
// carries the lease, and ends before the lease does, whether or not the store answers by then.
func (h hold) keep(ctx context.Context, fn func(context.Context)) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop() // without waiting: a renewal that comes late changes nothing that counts
	ctx, cancel := context.WithCancelCause(lease.NewContext(ctx, h.lease))
	defer cancel(nil)
	expiry := time.AfterFunc(h.left(h.asked), func() { cancel(errLeaseEnds) })
	defer expiry.Stop()
	go h.renew(running, expiry, cancel)
	fn(ctx)
}

// left returns how long the handler may run under a lease that was requested at the given time: a
// sixth of the lease is reserved for ending it.
func (h hold) left(asked time.Time) time.Duration {
	return time.Until(asked.Add(h.cfg.LeaseTTL - h.cfg.LeaseTTL/6))
}

// renew renews the lease until ctx ends, and extends the expiry each time. It calls cancel when
// the lease is lost.
func (h hold) renew(ctx context.Context, expiry *time.Timer, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(h.cfg.LeaseTTL / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asked := time.Now()
		answer, err := h.renewOnce(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			h.cfg.Logger.WarnContext(ctx, "a lease was not renewed", "error", err)
		case answer.Status != lease.Acquired:
			cancel(fmt.Errorf("idempotency: the lease store answered %s", answer.Status))
			return
		default:
			expiry.Reset(h.left(asked))
		}
	}
}

// renewOnce stops when the next renewal is due, which may then use another connection.
func (h hold) renewOnce(ctx context.Context) (lease.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.LeaseTTL/3)
	defer cancel()
	return h.leases.RenewLease(ctx, h.lease, h.cfg.LeaseTTL)
}

// release releases the key. If that fails it is free when the lease ends.
func (h hold) release(ctx context.Context) {
	ctx, cancel := settling(ctx)
	defer cancel()
	if _, err := h.leases.ReleaseLease(ctx, h.lease, lease.Release{}); err != nil {
		h.cfg.Logger.WarnContext(ctx, "a lease was not released", "error", err)
	}
}
