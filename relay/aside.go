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
type aside struct {
	until    time.Time // the lease is not renewed before
	failures int       // of destinations when the grace period began; -1 before
}

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
	a.until, a.failures = now.Add(rest), -1
	return true, true
}

// stepsAside reports whether the lease is to run out, and tells when that begins. A relay that is
// the only one keeps its lease. The rest lasts until others have had the time to see that the
// lease has ended.
func (r *Relay) stepsAside(ctx context.Context) bool {
	stuck := r.stuck()
	before := r.aside
	stays, begins := r.aside.take(stuck != nil && r.lanes.shared(), time.Now(), r.cfg.LeaseTTL+2*r.cfg.RenewInterval, r.cfg.callTimeout())
	switch {
	case begins && r.claims.well() && before.failures == r.failures(): // it had nothing to send
		r.absolve()
		r.aside = aside{}
		return false
	case begins:
		r.observe(ctx, waybill.Event{Op: waybill.OpLoop, Loop: "relay lease", Err: fmt.Errorf("let the lease run out, for other relays to take the lanes: %w", stuck)})
	case !stays && !r.aside.until.IsZero():
		r.probe()
	}
	return stays
}

// stuck returns why the relay gets nothing done, if that has lasted for too long.
func (r *Relay) stuck() error {
	if age, err := r.claims.failing(); age > r.cfg.callTimeout() {
		return &waybill.StalledError{Loop: r.claiming.Name, Age: age, Err: err}
	}
	if age := r.cutOff(); age > cutOffLeases*r.cfg.LeaseTTL && r.lanes.shared() {
		return fmt.Errorf("relay %s: none of its destinations has answered for %v", r.cfg.Node, age.Truncate(time.Second))
	}
	return nil
}

// cutOffLeases is for how many times LeaseTTL no destination may answer before others are to try.
const cutOffLeases = 3

// cutOff returns for how long every destination has been paused, 0 if one of them is not.
func (r *Relay) cutOff() time.Duration {
	r.backlog.mu.Lock()
	defer r.backlog.mu.Unlock()
	var latest time.Time
	for _, o := range r.main {
		if !o.main.probing() {
			return 0
		}
		if o.main.since.After(latest) {
			latest = o.main.since
		}
	}
	return time.Since(latest)
}

// failures returns how often destinations have been paused since their last answers.
func (r *Relay) failures() (n int) {
	r.backlog.mu.Lock()
	defer r.backlog.mu.Unlock()
	for _, o := range r.main {
		n += o.main.failures
	}
	return n
}

// probe ends the pauses of destinations, so that they are tried in the grace period.
func (r *Relay) probe() {
	if r.aside.failures < 0 {
		r.aside.failures = r.failures()
	}
	r.backlog.mu.Lock()
	defer r.backlog.mu.Unlock()
	for _, o := range r.main {
		o.main.until = time.Time{}
	}
}

// absolve takes destinations for well of which a grace period has shown nothing.
func (r *Relay) absolve() {
	r.backlog.mu.Lock()
	defer r.backlog.mu.Unlock()
	for _, o := range r.main {
		o.main.reset()
	}
}

// tries remembers since when something has been tried without success.
type tries struct {
	mu    sync.Mutex
	since time.Time // zero after a success
	err   error     // of the last failure
	told  int       // minutes of failures that overdue has reported
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
		t.since, t.told = time.Time{}, 0
	}
}

// well reports whether the latest try was a success.
func (t *tries) well() bool {
	age, _ := t.failing()
	return age == 0
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

// overdue returns for how long there has been no success, and true once for each minute of that.
func (t *tries) overdue() (age time.Duration, due bool) {
	age, _ = t.failing()
	t.mu.Lock()
	defer t.mu.Unlock()
	minutes := int(age.Minutes())
	due = minutes > t.told
	t.told = max(t.told, minutes)
	return age, due
}

// stalled returns a [*waybill.StalledError] if tries have failed for longer than limit.
func (t *tries) stalled(loop string, limit time.Duration) error {
	age, err := t.failing()
	if err == nil || age <= limit {
		return nil
	}
	return &waybill.StalledError{Loop: loop, Age: age, Err: err}
}
