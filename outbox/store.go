package outbox

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
)

// Store writes messages in a transaction of type Tx. Stores implement it.
type Store[Tx any] interface {
	// EnqueueMessages stores msgs, which are complete and valid, in tx, with one statement
	// and one round trip where the database allows it, in the order of the slice. It reports
	// for each message whether it is new: false means that its id is on its way already (in
	// the outbox or waiting) or, with unique set, was enqueued with unique set within the
	// outbox retention. A message that is not new changes nothing and tx stays usable.
	EnqueueMessages(ctx context.Context, tx Tx, msgs []waybill.Message, unique bool) ([]bool, error)

	// Transact runs fn in a transaction of its own, enqueues what fn returns in it, and
	// commits. An error or panic of fn rolls back. Clashes with other transactions come back
	// as conflicts; Transact itself does not repeat fn. After the commit it wakes relays
	// that share this store object.
	Transact(ctx context.Context, fn func(ctx context.Context, tx Tx) ([]waybill.Message, error), unique bool) ([]bool, error)

	// WakeRelay tells relays that share this store object that messages were committed.
	WakeRelay()
}

// Status is where a message is.
type Status string

const (
	Pending   Status = "Pending"   // committed, not tried yet
	Waiting   Status = "Waiting"   // waits for its next attempt or behind an earlier message
	Scheduled Status = "Scheduled" // DeliverAt has not come
	Published Status = "Published" // accepted by the broker
	Failed    Status = "Failed"    // given up with dead letters disabled
	Dead      Status = "Dead"      // given up, a dead letter
	Discarded Status = "Discarded" // given up, and somebody has said that this is the end of it
)

// State tells where one message is, as one row of the store's view "messages".
type State struct {
	ID          string     `json:"id"`
	Status      Status     `json:"status"`
	Topic       string     `json:"topic"`
	Destination string     `json:"destination,omitempty"`
	Type        string     `json:"type"`
	Source      string     `json:"source"`
	Tenant      string     `json:"tenant"`
	Key         string     `json:"key,omitempty"`
	Attempts    int        `json:"attempts"`
	Error       string     `json:"error,omitempty"`
	EnqueuedAt  time.Time  `json:"enqueued_at"`
	DueAt       *time.Time `json:"due_at,omitempty"`       // Waiting, Scheduled
	PublishedAt *time.Time `json:"published_at,omitempty"` // Published
}

// Stats counts the messages of one topic and status.
type Stats struct {
	Topic  string        `json:"topic"`
	Status Status        `json:"status"`
	Count  int64         `json:"count"`
	Oldest time.Duration `json:"oldest_ns"` // age of the oldest by the store's clock
}

// Inspector shows what the outbox holds. Stores implement it.
type Inspector interface {
	// MessageStates returns every state of the messages with the given id: none if the id is
	// unknown, several if it went to several destinations or was enqueued again.
	MessageStates(ctx context.Context, id string) ([]State, error)

	// OutboxStats returns a row per topic and status, ordered by topic and status.
	OutboxStats(ctx context.Context) ([]Stats, error)

	// OutboxBacklog is as OutboxStats for what is still to be published, Pending, Waiting and
	// Scheduled, and reads nothing else: neither the archive nor dead letters.
	OutboxBacklog(ctx context.Context) ([]Stats, error)
}
