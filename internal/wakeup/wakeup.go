// Package wakeup notifies the relays of a process that messages were committed.
package wakeup

import (
	"context"
	"sync"
)

// Signaller passes signals to any number of waiters, each with a name. The zero value is
// ready.
type Signaller struct {
	mu      sync.Mutex
	waiters map[string]chan struct{}
}

// Join returns the channel on which the signals of name arrive; at most one is pending.
// isNew reports that name has missed every signal so far: it should look before it waits.
func (s *Signaller) Join(name string) (signals <-chan struct{}, isNew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, known := s.waiters[name]
	if !known {
		if s.waiters == nil {
			s.waiters = make(map[string]chan struct{})
		}
		c = make(chan struct{}, 1)
		s.waiters[name] = c
	}
	return c, !known
}

// Leave forgets name and reports whether it was known.
func (s *Signaller) Leave(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.waiters[name]
	delete(s.waiters, name)
	return known
}

// Signal wakes every waiter that has no signal pending. It does not block.
func (s *Signaller) Signal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.waiters {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Wait returns when there was a signal since the last Wait of name has returned, or when ctx
// is done; the first time at once.
func (s *Signaller) Wait(ctx context.Context, name string) {
	signals, isNew := s.Join(name)
	if isNew {
		return
	}
	select {
	case <-signals:
	case <-ctx.Done():
	}
}
