package rabbitbroker

import (
	"sync/atomic"
	"time"
)

// patience is for how long a server may confirm nothing before its connection is given up. It doubles each time that
// happens, so that a server that is slow, and not stuck, does not get the same messages again and again, and is at its
// least again when the server has answered as fast as it used to.
type patience struct {
	least time.Duration
	now   atomic.Int64
}

// mostPatience is how many times as long as at least it may be.
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

// answered takes in after how long all of a batch was answered.
func (p *patience) answered(after time.Duration) {
	if after < p.least/2 {
		p.now.Store(int64(p.least))
	}
}

// look is how often to look for answers.
func (p *patience) look() time.Duration { return max(p.least/4, time.Millisecond) }
