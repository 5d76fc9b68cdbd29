// Package results collects the result of each message of a batch.
package results

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrPending stands for a pending result.
var ErrPending = errors.New("no answer yet")

// Set holds the results of one batch. Each is set once; later calls are ignored. It is safe for
// concurrent use.
type Set struct {
	done chan struct{}

	mu   sync.Mutex
	errs []error
	left int // pending results
}

// New returns a set of n pending results.
func New(n int) *Set {
	s := &Set{done: make(chan struct{}), errs: slices.Repeat([]error{ErrPending}, n), left: n}
	if n == 0 {
		close(s.done)
	}
	return s
}

// Resolve sets the result of message i, nil for success, unless it is already set.
func (s *Set) Resolve(i int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(i, err)
}

// ResolveAll sets all pending results.
func (s *Set) ResolveAll(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.errs {
		s.set(i, err)
	}
}

func (s *Set) set(i int, err error) {
	if s.errs[i] != ErrPending {
		return
	}
	s.errs[i] = err
	if s.left--; s.left == 0 {
		close(s.done)
	}
}

// Pending reports whether the result of message i is pending.
func (s *Set) Pending(i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.errs[i] == ErrPending
}

// Done returns a channel that is closed when no result is pending.
func (s *Set) Done() <-chan struct{} { return s.done }

// Wait returns the results once all are known. If ctx ends before, those that are pending get the error that late returns.
func (s *Set) Wait(ctx context.Context, late func() error) []error {
	select {
	case <-s.done:
	case <-ctx.Done():
		s.ResolveAll(late()) // unless they are known by now
	}
	return s.All()
}

// All returns a copy of the results, in the order of the messages; [ErrPending] stands for pending
// ones.
func (s *Set) All() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.errs)
}
