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

// Ended returns nil if ctx has ended, because that is how a subscription ends, else err.
func Ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
