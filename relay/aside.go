package relay

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
)

// aside decides when a relay that gets nothing done lets its lease run out, so that others take its
// lanes, and when it tries again. Only the renewal loop uses it.
type aside struct{ until time.Time } // the lease is not renewed before

// take reports whether to let the lease run out, and whether that begins now. stuck says that
// nothing gets done. After a rest the relay has a grace period to get something done.
func (a *aside) take(stuck bool, now time.Time, rest, grace time.Duration) (stays, begins bool) {
	switch {
	case !stuck:
		*a = aside{}
		return false, false
	case now.Before(a.until):
		return true, false
	case now.Before(a.until.Add(grace)):
		return false, false
	}
	a.until = now.Add(rest)
	return true, true
}

// stepsAside reports whether the lease is to run out, and tells when that begins. A relay that is
// the only one keeps its lease. The rest lasts until others have had the time to see that the
// lease has ended.
func (r *Relay) stepsAside(ctx context.Context) bool {
	stuck := r.stuck()
	stays, begins := r.aside.take(stuck != nil && r.lanes.shared(), time.Now(), r.cfg.LeaseTTL+2*r.cfg.RenewInterval, r.cfg.callTimeout())
	if begins {
		r.observe(ctx, waybill.Event{Op: waybill.OpLoop, Loop: "relay lease", Err: fmt.Errorf("let the lease run out, for other relays to take the lanes: %w", stuck)})
	}
	return stays
}

// stuck returns why the relay gets nothing done, if that has lasted for too long.
func (r *Relay) stuck() error {
	if age, err := r.claims.failing(); age > r.cfg.callTimeout() {
		return &waybill.StalledError{Loop: r.claiming.Name, Age: age, Err: err}
	}
	return nil
}

// tries remembers since when something has been tried without success.
type tries struct {
	mu    sync.Mutex
	since time.Time // zero after a success
	err   error     // of the last failure
}

// begin notes a try.
func (t *tries) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since.IsZero() {
		t.since = time.Now()
	}
}

// end notes what a try came to.
func (t *tries) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err = err; err == nil {
		t.since = time.Time{}
	}
}

// failing returns for how long there has been no success, and the last failure; 0 if the latest try
// was one.
func (t *tries) failing() (time.Duration, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since.IsZero() {
		return 0, nil
	}
	return time.Since(t.since), t.err
}
