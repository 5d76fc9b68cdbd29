package contract

import (
	"context"
	"errors"
)

// Lag is the backlog of a consumer group at the broker.
type Lag struct {
	// Messages is how many messages the broker has for the group and has delivered to none of its
	// consumers. What these hold, up to their prefetch, is not counted, nor is what waits for a retry.
	// A broker that can't distinguish them counts what consumers hold, too; its adapter says so.
	Messages int64
}

// Lagger is a [Subscriber] that knows the backlog of its group, whether it receives or not.
// It is safe for concurrent use.
type Lagger interface {
	// Lag asks the broker. The error is unavailable if it does not answer. A group that the broker does
	// not know has no backlog.
	Lag(ctx context.Context) (Lag, error)
}

// ErrNoLag reports that a subscriber does not know the backlog of its group.
var ErrNoLag = errors.New("consumer: the subscriber can't tell how much waits")
