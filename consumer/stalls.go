package consumer

import (
	"context"
	"sync"
)

// stalls counts the deliveries of blocked keys: the first of a key has failed and is to be retried.
// They stay with the consumer to keep the order, and must not use up the prefetch: where they fill
// half of a subscription, it is replaced by a larger one.
type stalls struct {
	mu       sync.Mutex
	keys     map[string]*stall
	waiting  int                // deliveries of blocked keys
	prefetch int                // of the subscription
	usual    int                // the prefetch with nothing waiting
	replace  context.CancelFunc // ends the subscription, to be followed by another
}

type stall struct {
	held int // deliveries
	up   bool
}

// open returns the prefetch of a subscription, which replace ends when that is to change.
func (s *stalls) open(usual int, replace context.CancelFunc) (prefetch int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usual, s.replace = usual, replace
	s.prefetch = min(usual+2*s.waiting, max(usual, maxPrefetch))
	return s.prefetch
}

// change counts n more deliveries of a key.
func (s *stalls) change(key string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		s.keys = make(map[string]*stall)
	}
	k := s.keys[key]
	if k == nil {
		k = &stall{}
		s.keys[key] = k
	}
	if k.held += n; k.up {
		s.waiting += n
	}
	if k.held == 0 {
		delete(s.keys, key)
	}
	s.check()
}

// hold records whether a key is blocked.
func (s *stalls) hold(key string, up bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keys[key]
	if k == nil || k.up == up {
		return
	}
	if k.up = up; up {
		s.waiting += k.held
	} else {
		s.waiting -= k.held
	}
	s.check()
}

// check replaces a subscription when waiting deliveries fill half of its usual prefetch, and one
// that no longer needs to be larger than usual.
func (s *stalls) check() {
	full := s.prefetch-s.waiting < (s.usual+1)/2 && s.prefetch < maxPrefetch
	if s.replace != nil && (full || s.waiting == 0 && s.prefetch > s.usual) {
		s.replace()
		s.replace = nil
	}
}
