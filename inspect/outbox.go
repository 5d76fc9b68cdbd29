package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waybill-go/waybill"
)

// Status is where a message is.
type Status string

const (
	Pending   Status = "Pending"   // committed, not tried yet
	Waiting   Status = "Waiting"   // waits for its next attempt or behind an earlier message
	Scheduled Status = "Scheduled" // DeliverAt has not come
	Published Status = "Published" // accepted by the broker
	Failed    Status = "Failed"    // failed for good, with dead letters disabled
	Dead      Status = "Dead"      // a dead letter
	Discarded Status = "Discarded" // a dead letter that was discarded
)

// Statuses returns all statuses.
func Statuses() []Status {
	return []Status{Pending, Waiting, Scheduled, Published, Failed, Dead, Discarded}
}

// MessageState says where one message is, as one row of the store's view "messages".
type MessageState struct {
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
	Topic  string `json:"topic"`
	Status Status `json:"status"`
	Count  int64  `json:"count"`

	// Consumer is the consumer of the dead letters; "" for what belongs to the outbox.
	Consumer string `json:"consumer,omitempty"`

	// Oldest is the age of the oldest by the store's clock: since it was enqueued, or came due if
	// it was scheduled. It is negative as long as none is due: the time until the first is.
	Oldest time.Duration `json:"oldest_ns"`
}

// Filter narrows a list of messages. Empty fields match everything, but for Status.
type Filter struct {
	Status        Status // the default is what is not yet published: Pending, Waiting, Scheduled
	Topic         string // or destination address
	Tenant        string
	Key           string
	CorrelationID string
	MessageID     string
	Text          string        // searched in id, key and correlation id, case-insensitively
	OlderThan     time.Duration // enqueued at least this long ago
	Limit         int           // the default is 100
}

// DefaultLimit is the number of messages that a list returns if [Filter.Limit] is 0.
const DefaultLimit = 100

// Check returns an error that names the field if f can't be answered.
func (f Filter) Check() error {
	switch {
	case f.Status != "" && !slices.Contains(Statuses(), f.Status):
		return &waybill.InvalidError{Field: "status", Reason: fmt.Sprintf("is %q; it is one of %v", f.Status, Statuses())}
	case slices.ContainsFunc([]string{f.Topic, f.Tenant, f.Key, f.CorrelationID, f.MessageID, f.Text}, unstorable):
		return &waybill.InvalidError{Field: "filter", Reason: "is not UTF-8 text, or holds a NUL"}
	case f.OlderThan < 0:
		return &waybill.InvalidError{Field: "older than", Reason: "is negative"}
	case f.Limit < 0:
		return &waybill.InvalidError{Field: "limit", Reason: "is negative"}
	}
	return nil
}

// unstorable reports whether no store can hold a text.
func unstorable(text string) bool { return !utf8.ValidString(text) || strings.ContainsRune(text, 0) }

// Outbox reads what an outbox holds. Stores implement it; it is safe for concurrent use.
type Outbox interface {
	// MessageStates returns every state of the messages with the given id: none if the id is
	// unknown, several if it went to several destinations or was enqueued again.
	MessageStates(ctx context.Context, id string) ([]MessageState, error)

	// OutboxMessages returns the messages that match f, oldest first, or, if they are Published, last
	// published first, and an empty slice if there are none. A filter that [Filter.Check] refuses is an
	// error. It may read all messages with the status of the filter.
	OutboxMessages(ctx context.Context, f Filter) ([]MessageState, error)

	// OutboxStats returns a row per topic, status and consumer, in this order. Dead letters of
	// consumers are included, as Dead or Failed, but not those that are resolved or requeued.
	OutboxStats(ctx context.Context) ([]Stats, error)

	// OutboxBacklog is OutboxStats for Pending and Waiting only, which are few while relays
	// keep up.
	OutboxBacklog(ctx context.Context) ([]Stats, error)
}
