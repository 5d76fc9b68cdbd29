package relay

import (
	"context"
	"sync"
	"time"
)

// bell wakes one waiter. A ring that nobody waits for is kept, several are one.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// wait returns after a ring or when ctx is done.
func (b bell) wait(ctx context.Context) {
	select {
	case <-b:
	case <-ctx.Done():
	}
}

// notify calls a function at the next ring, until stop is called.
func (b bell) notify(call func()) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-b:
			call()
		case <-quit:
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}

// alarm calls a function at the earliest of the times it was set to.
type alarm struct {
	call func()

	mu    sync.Mutex
	timer *time.Timer
	at    time.Time
}

func (a *alarm) in(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := time.Now().Add(d)
	if a.timer != nil {
		if !at.Before(a.at) {
			return
		}
		a.timer.Stop()
	}
	a.at = at
	a.timer = time.AfterFunc(d, a.fire)
}

// stop forgets the time that was set.
func (a *alarm) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}

func (a *alarm) fire() {
	a.mu.Lock()
	a.timer = nil
	a.mu.Unlock()
	a.call()
}
