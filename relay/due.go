package relay

import (
	"sync"
	"time"
)

// dueTick is how finely due times are told apart, which bounds how many are kept.
const dueTick = 10 * time.Millisecond

// dueTimes remembers when waiting messages come due, so that the relay looks for them then
// and not only at its next poll. What it forgets, at a restart, the poll still finds.
type dueTimes struct {
	mu    sync.Mutex
	ticks map[int64]struct{}
}

func newDueTimes() *dueTimes { return &dueTimes{ticks: make(map[int64]struct{})} }

// in notes that a message is due after a while from now, and reports whether none was known
// to be due then.
func (d *dueTimes) in(after time.Duration) (isNew bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	tick := time.Now().Add(after).UnixMilli()/dueTick.Milliseconds() + 1
	_, known := d.ticks[tick]
	d.ticks[tick] = struct{}{}
	return !known
}

// next returns how long until the next due time, at most limit.
func (d *dueTimes) next(limit time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for tick := range d.ticks {
		limit = min(limit, max(0, due(tick).Sub(now)))
	}
	return limit
}

// passed reports whether due times have come, and forgets those.
func (d *dueTimes) passed() (passed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for tick := range d.ticks {
		if !due(tick).After(now) {
			delete(d.ticks, tick)
			passed = true
		}
	}
	return passed
}

func due(tick int64) time.Time { return time.UnixMilli(tick * dueTick.Milliseconds()) }
