package consumer

import (
	"context"
	"errors"
)

// Lag is what waits for a consumer group.
type Lag struct {
	// Messages is how many messages the broker has for the group and has given to none of its
	// consumers. What they hold, up to their prefetch, is not in it, nor is what waits for a
	// retry. A broker that can't tell counts what they hold; its adapter says so.
	Messages int64
}

// Lagger is a [contract.Subscriber] that can tell how much waits for its group, whether it receives or
// not. It is safe for concurrent use.
type Lagger interface {
	// Lag asks the broker. The error is unavailable if that does not answer. A group that the
	// broker does not know has nothing waiting.
	Lag(ctx context.Context) (Lag, error)
}

// ErrNoLag says that a subscriber can't tell how much waits for its group.
var ErrNoLag = errors.New("consumer: the subscriber can't tell how much waits")

// Lag asks the broker how much waits for this consumer; [ErrNoLag] if it can't tell. It is
// safe for concurrent use.
func (c *receiver) Lag(ctx context.Context) (Lag, error) {
	if l, ok := c.sub.(Lagger); ok {
		return l.Lag(ctx)
	}
	return Lag{}, ErrNoLag
}
