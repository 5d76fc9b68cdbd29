package rows

import (
	"context"
	"time"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/outbox"
)

// Table is a table within a transaction. K is what identifies a row, V a pointer to it. Rows that are returned are
// the caller's to change; a store keeps none of those that it is given.
type Table[K, V any] interface {
	// Get returns the rows with these keys that are there, in any order.
	Get(ctx context.Context, keys ...K) ([]V, error)

	// Find returns the rows that a query asks for.
	Find(ctx context.Context, q Query[V]) ([]V, error)

	// Count returns the number of rows that meet all conditions.
	Count(ctx context.Context, conditions ...Condition[V]) (int, error)

	// Sums counts such rows by topic and consumer.
	Sums(ctx context.Context, since Since, conditions ...Condition[V]) ([]Sum, error)

	// Add adds rows whose keys are not there. If one is, the transaction can't go on.
	Add(ctx context.Context, rows ...V) error

	// Put adds rows, replacing those with the same keys.
	Put(ctx context.Context, rows ...V) error

	// Delete removes the rows with these keys, if they are there.
	Delete(ctx context.Context, keys ...K) error
}

// Since says what the age of a message counts from.
type Since bool

// The two ages: from when a message was enqueued, or from when it came due, if that is later.
const (
	SinceEnqueued Since = false
	SinceDue      Since = true
)

// Sum is the number of rows of a table with a topic that are dead letters of a consumer, "" for other rows.
type Sum struct {
	Topic, Consumer string
	Count           int64
	Oldest          time.Time // the time that the age of the oldest counts from
}

// Tx is a transaction: the tables, and what else a store does in it.
type Tx struct {
	Driver

	Now time.Time // by the store's clock, when the transaction began

	Outbox, Scheduled Table[int64, *Row] // by position
	Waiting           Table[Place, *Waiting]
	Archive           Table[any, *Archived] // by a key that the store assigns
	IDs               Table[outbox.Identity, *ID]
	Letters           Table[int64, *Letter] // by number
	Audit             Table[int64, *deadletter.Entry]
	Replays           Table[int64, *Replay]
	Inbox             Table[inbox.Key, *Record]
	Attempts          Table[inbox.Key, *Attempt]
	Relays            Table[string, *Relay] // by name
	Lanes             Table[int, *Lane]     // by number; all are there
}

// Driver is what a store does in a transaction apart from its tables.
type Driver interface {
	// Draw takes n numbers of a counter, which begins with 1, and returns the first of them and the time. Those
	// of a transaction that rolls back may be lost.
	Draw(ctx context.Context, c Counter, n int) (first int64, now time.Time, err error)

	// Lock keeps other transactions from changing what is in lanes, or their owners, until this one ends. It is
	// called before what it protects is read; of several lanes the lowest is locked first.
	Lock(ctx context.Context, lanes ...int) error
}

// Counter is a number that only rises.
type Counter string

// The counters: of positions in the outbox, and of dead letters, entries of the audit log and replays.
const (
	Positions Counter = "position"
	Letters   Counter = "letter"
	Entries   Counter = "audit"
	Numbers   Counter = "replay"
)

// get returns the row with a key, nil if there is none.
func get[K, V any](ctx context.Context, t Table[K, *V], key K) (*V, error) {
	list, err := t.Get(ctx, key)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list[0], nil
}

// first returns the first row that a query asks for, nil if there is none.
func first[K, V any](ctx context.Context, t Table[K, *V], q Query[*V]) (*V, error) {
	list, err := t.Find(ctx, q.first(1))
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list[0], nil
}

// exists reports whether a row meets all conditions.
func exists[K, V any](ctx context.Context, t Table[K, *V], conditions ...Condition[*V]) (bool, error) {
	r, err := first(ctx, t, where(conditions...))
	return r != nil, err
}

func each[T any](list []T, do func(T) error) error {
	for _, v := range list {
		if err := do(v); err != nil {
			return err
		}
	}
	return nil
}
