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

// in notes that a message is due after a while from now.
func (d *dueTimes) in(after time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ticks[time.Now().Add(after).UnixMilli()/dueTick.Milliseconds()+1] = struct{}{}
}

// next drops what has passed and returns how long until the next due time, at most limit.
func (d *dueTimes) next(limit time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	wait := limit
	for tick := range d.ticks {
		left := time.UnixMilli(tick * dueTick.Milliseconds()).Sub(now)
		if left <= 0 {
			delete(d.ticks, tick)
			left = 0
		}
		wait = min(wait, left)
	}
	return wait
}

// passed reports whether a due time has come since the last call of next.
func (d *dueTimes) passed() bool { return d.next(1) == 0 }
