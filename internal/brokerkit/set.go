package brokerkit

import (
	"maps"
	"slices"
	"sync"
)

// Set is what a broker has open, so that Close can end it: deliveries that are not settled, for example. The zero value is
// empty. It is safe for concurrent use.
type Set[T comparable] struct {
	mu      sync.Mutex
	members map[T]struct{}
}

// Add adds v.
func (s *Set[T]) Add(v T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.members == nil {
		s.members = make(map[T]struct{})
	}
	s.members[v] = struct{}{}
}

// Remove removes v, if it is there.
func (s *Set[T]) Remove(v T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.members, v)
}

// All returns the members, in no order.
func (s *Set[T]) All() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.members))
}
