package dashboard

import (
	"context"
	"time"
)

// freshFor is the minimum age of shared data before it is read again.
const freshFor = 5 * time.Second

// cached caches what is expensive to read. Only one caller at once reads; the time between
// two readings grows with what one takes, so that any number of open pages costs the store
// at most a small share of its time. An error is not cached.
type cached[V any] struct {
	read func(ctx context.Context) (V, error)
	turn chan struct{} // guards the fields below

	value V
	at    time.Time
	until time.Time
}

func newCached[V any](read func(ctx context.Context) (V, error)) *cached[V] {
	return &cached[V]{read: read, turn: make(chan struct{}, 1)}
}

// get returns the value and when it was read.
func (c *cached[V]) get(ctx context.Context) (value V, at time.Time, err error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return value, at, context.Cause(ctx)
	}
	if time.Now().Before(c.until) {
		return c.value, c.at, nil
	}
	begin := time.Now()
	if value, err = c.read(ctx); err != nil {
		return value, at, err
	}
	c.value, c.at = value, time.Now()
	c.until = c.at.Add(max(freshFor, 20*c.at.Sub(begin)))
	return c.value, c.at, nil
}
