package inspect

import (
	"context"
	"time"
)

// InboxState is what an inbox knows of one message and one consumer. At most one of ProcessedAt
// and DeadAt is set; if neither is, attempts have failed and the next is due at DueAt.
type InboxState struct {
	Tenant    string `json:"tenant"`
	Consumer  string `json:"consumer"`
	Source    string `json:"source"`
	Alias     string `json:"alias"`       // the type without its version
	Message   string `json:"message_key"` // the idempotency key, else the message id
	MessageID string `json:"message_id,omitempty"`
	Type      string `json:"type,omitempty"`

	ProcessedAt *time.Time `json:"processed_at,omitempty"`
	DeadAt      *time.Time `json:"dead_at,omitempty"`

	Attempts int        `json:"attempts,omitempty"` // failed so far
	DueAt    *time.Time `json:"due_at,omitempty"`
	Error    string     `json:"error,omitempty"` // of the last attempt
}

// Inbox reads what an inbox holds. Stores implement it; it is safe for concurrent use.
type Inbox interface {
	// InboxStates returns what consumers have done with the messages that have the given id,
	// or the given idempotency key, by consumer, and an empty slice if the inbox knows of
	// none. The consumer is "" for all. Failed attempts are found by the idempotency key
	// alone where a message has one. It reads the whole inbox: do not call it often.
	InboxStates(ctx context.Context, id, consumer string) ([]InboxState, error)
}

// InboxSize is how much an inbox holds, records of dead letters included.
type InboxSize struct {
	Records int64         // approximate; -1 if the store would have to count them
	Oldest  time.Duration // since the oldest record was written, by the store's clock; 0 if there is none
}

// InboxSizer returns cheaply how much an inbox holds. Stores may implement it; it is safe for
// concurrent use.
type InboxSizer interface {
	// InboxSize returns the size from the database's statistics. It does not read
	// the inbox.
	InboxSize(ctx context.Context) (InboxSize, error)
}
