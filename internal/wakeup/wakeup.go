// Package wakeup tells the relays of a process that messages were committed.
package wakeup

import "sync"

// Signaller passes signals to any number of subscribers. The zero value is ready.
type Signaller struct {
	mu   sync.Mutex
	subs []chan struct{}
}

// Subscribe returns a new channel that holds at most one signal.
func (s *Signaller) Subscribe() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan struct{}, 1)
	s.subs = append(s.subs, c)
	return c
}

// Signal wakes every subscriber that has no signal pending. It does not block.
func (s *Signaller) Signal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.subs {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
