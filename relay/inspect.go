package relay

import (
	"context"
	"time"
)

// NodeState is a relay as the store knows it.
type NodeState struct {
	Node      string
	StartedAt time.Time
	ExpiresAt time.Time // of its lease
	Alive     bool      // its lease holds, by the store's clock
	Lanes     []int     // that it owns, ascending
	Since     time.Time // when it took the newest of them
}

// Inspector shows the relays of a store. Stores implement it.
type Inspector interface {
	// RelayStates returns every relay that has not left, ordered by node, and an empty slice
	// if there is none.
	RelayStates(ctx context.Context) ([]NodeState, error)
}
