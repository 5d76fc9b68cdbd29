package redisbroker

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// batch collects the results of one Send.
type batch struct {
	ctx  context.Context
	done chan struct{} // closed when all results are known
	lost bool          // the connection ended under it; guarded by the lock of the publisher

	mu      sync.Mutex
	results []error
	left    int // results that are not known
}

func newBatch(ctx context.Context, n int) *batch {
	b := &batch{ctx: ctx, done: make(chan struct{}), results: slices.Repeat([]error{errNotAnswered}, n), left: n}
	if n == 0 {
		close(b.done)
	}
	return b
}

// resolve sets the result of message i unless it is known.
func (b *batch) resolve(i int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.set(i, err)
}

// resolveAll sets all results that are not known.
func (b *batch) resolveAll(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.results {
		b.set(i, err)
	}
}

func (b *batch) set(i int, err error) {
	if !errors.Is(b.results[i], errNotAnswered) {
		return
	}
	b.results[i] = err
	if b.left--; b.left == 0 {
		close(b.done)
	}
}

// open reports whether the result of message i is not known.
func (b *batch) open(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return errors.Is(b.results[i], errNotAnswered)
}

// wait returns the results when all are known or the batch's context is done.
func (b *batch) wait() []error {
	select {
	case <-b.done:
	case <-b.ctx.Done():
		b.resolveAll(unconfirmed(b.ctx.Err()))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.results)
}
