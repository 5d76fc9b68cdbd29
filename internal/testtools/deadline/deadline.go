// Package deadline provides contexts whose deadline passes when a test says so.
package deadline

import (
	"context"
	"time"
)

type byHand struct {
	context.Context
	passed chan struct{}
}

// ByHand returns a child of parent whose deadline, said to be in an hour, passes when pass is called,
// which must happen once at most. It does not end with parent.
func ByHand(parent context.Context) (ctx context.Context, pass func()) {
	d := byHand{parent, make(chan struct{})}
	return d, func() { close(d.passed) }
}

func (byHand) Deadline() (time.Time, bool) { return time.Now().Add(time.Hour), true }

func (d byHand) Done() <-chan struct{} { return d.passed }

func (d byHand) Err() error {
	select {
	case <-d.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
