package inspect

import (
	"context"
	"time"
)

// RelayState is what a store knows of one relay.
type RelayState struct {
	// Node is the relay's name. It is "" for lanes without an owner; what is in them waits until a
	// relay takes them.
	Node string `json:"node"`

	StartedAt time.Time `json:"started_at,omitzero"` // when it joined
	ExpiresAt time.Time `json:"expires_at,omitzero"` // of its lease
	Alive     bool      `json:"alive"`               // the lease has not expired by the store's clock

	Lanes []int     `json:"lanes"`          // ascending, empty if it has none
	Since time.Time `json:"since,omitzero"` // when it took the last of them
}

// Relays lists the relays of a store. Stores implement it; it is safe for concurrent use.
type Relays interface {
	// RelayStates returns a state per relay that has joined and not left, by name, preceded by one
	// without a name if there are lanes without an owner. A relay that has died stays, not alive, until
	// another one takes its lanes.
	RelayStates(ctx context.Context) ([]RelayState, error)
}
