package rabbitbroker

import (
	"sync/atomic"
	"time"
)

// patience is how long a server may confirm nothing before its connection is dropped. It doubles each time that
// happens, so that a server that is slow, rather than stuck, does not get the same messages repeatedly, and returns to
// its minimum when the server has answered as fast as before.
type patience struct {
	least time.Duration
	now   atomic.Int64
}

// mostPatience is the maximum as a multiple of the minimum.
const mostPatience = 4

func newPatience(least time.Duration) *patience {
	p := &patience{least: least}
	p.now.Store(int64(least))
	return p
}

// ended reports whether a silence is too long.
func (p *patience) ended(silence time.Duration) bool {
	now := p.now.Load()
	if int64(silence) < now {
		return false
	}
	p.now.CompareAndSwap(now, min(2*now, mostPatience*int64(p.least)))
	return true
}

// answered takes in how long the server took to answer a batch.
func (p *patience) answered(after time.Duration) {
	if after < p.least/2 {
		p.now.Store(int64(p.least))
	}
}

// look returns how often to look for answers.
func (p *patience) look() time.Duration { return max(p.least/4, time.Millisecond) }
