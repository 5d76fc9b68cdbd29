package relaycore

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// refusedHealthy is how long the store may refuse a settlement, or to release scheduled messages,
// before the relay is unhealthy.
const refusedHealthy = time.Minute

// Stalled is the error of work that has not succeeded for a time.
type Stalled struct {
	Loop string        // claim, lease, settle or release
	Age  time.Duration // since the latest success
	Err  error         // of the latest attempt; nil if it has not ended
}

// Error implements error.
func (e *Stalled) Error() string {
	text := fmt.Sprintf("%s has not succeeded for %v", e.Loop, e.Age.Truncate(time.Second))
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the error of the latest attempt.
func (e *Stalled) Unwrap() error { return e.Err }

// Health returns what is wrong with the relay: nothing if it is healthy.
func (c *Core) Health(now Time) (errs []error) {
	stalled := func(loop string, age, limit time.Duration, err error) bool {
		if age <= limit {
			return false
		}
		errs = append(errs, &Stalled{Loop: loop, Age: age, Err: err})
		return true
	}
	if !stalled("claim", now-c.read.tries.ok, max(3*c.cfg.PollInterval, c.cfg.LeaseTTL), c.read.tries.err) {
		if err := c.stuck(now); err != nil {
			errs = append(errs, err)
		}
	}
	stalled("lease", now-c.lease.tries.ok, c.cfg.LeaseTTL, c.lease.tries.err)
	if err := c.settler.tries.err; err != nil {
		stalled("settle", c.settler.tries.age(now), c.cfg.CallTimeout, err)
	}
	list := slices.DeleteFunc(c.settler.allApart(), func(r *apart) bool { return r.tries.err == nil })
	if len(list) > 0 {
		r := slices.MinFunc(list, func(a, b *apart) int { return cmp.Compare(a.tries.since, b.tries.since) })
		err := fmt.Errorf("the store refuses what became of %d keys or messages, the first of them at position %d: %w",
			len(list), r.first.Position, r.tries.err)
		stalled("settle", r.tries.age(now), refusedHealthy-1, err)
	}
	if err := c.read.release.err; err != nil {
		stalled("release", c.read.release.age(now), refusedHealthy, err)
	}
	return errs
}
