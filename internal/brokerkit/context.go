// Package brokerkit holds small parts that several broker adapters are made of.
package brokerkit

import (
	"context"
	"math/rand/v2"
	"time"
)

// Join returns a context that ends with ctx or with other, whichever ends first. Its cause is that of the one that ended.
func Join(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// Closed reports whether a channel on which nothing is sent is closed.
func Closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Last returns the latest of the contexts' deadlines, the zero time if none has one: who sends for several callers sends
// until then, and those whose deadline passes before do not wait.
func Last[T any](list []T, contextOf func(T) context.Context) (last time.Time) {
	for _, v := range list {
		if deadline, ok := contextOf(v).Deadline(); ok && deadline.After(last) {
			last = deadline
		}
	}
	return last
}

// Backoff returns how long to wait after the n-th failure in a row: base, then twice as long each time, up to 5 seconds.
func Backoff(base time.Duration, n int) time.Duration {
	return min(base<<min(max(n-1, 0), 10), 5*time.Second)
}

// Spread returns d ±20 %, so that those who wait do not all come at once.
func Spread(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}
