// Package brokerkit holds small parts that several broker adapters are made of.
package brokerkit

import (
	"context"
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

// Ended returns nil if ctx has ended, because that is how a subscription ends, else err.
func Ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
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
