package brokerkit

import (
	"context"
	"time"
)

// Every calls f each time that interval has passed, or that kick, which may be nil, has a value, until ctx is done.
func Every(ctx context.Context, interval time.Duration, kick <-chan struct{}, f func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-kick:
		}
		f()
	}
}
