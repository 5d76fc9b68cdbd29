package schedule

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/outbox"
)

// Store keeps what is to be enqueued later in transactions of type Tx. Stores implement it. If tx
// is nil the error is an [*waybill.InvalidError] about the field tx.
type Store[Tx any] interface {
	outbox.Store[Tx]

	// Now returns the time by the clock that decides what is due.
	Now(ctx context.Context, tx Tx) (time.Time, error)

	// AddScheduled keeps a message, which is complete and valid, until its DeliverAt. It returns
	// false, and keeps nothing, if one was added under this id and is not due yet.
	AddScheduled(ctx context.Context, tx Tx, m *waybill.Message) (bool, error)

	// CancelScheduled removes a message that AddScheduled keeps. It returns false if there is
	// none.
	CancelScheduled(ctx context.Context, tx Tx, id string) (bool, error)

	// MoveScheduled gives a message that AddScheduled keeps another DeliverAt. It returns false
	// if there is none.
	MoveScheduled(ctx context.Context, tx Tx, id string, at time.Time) (bool, error)

	// ReadSchedule returns a schedule, or [waybill.ErrNotFound].
	ReadSchedule(ctx context.Context, tx Tx, name string) (State, error)

	// WriteSchedule stores s, replacing the version that it names, 0 for a new schedule.
	// It returns false if the store has another one.
	WriteSchedule(ctx context.Context, tx Tx, s State) (bool, error)

	// RemoveSchedule removes a schedule. It returns false if there is none.
	RemoveSchedule(ctx context.Context, tx Tx, name string) (bool, error)
}

// Source is what a [Runner] needs of a store. Stores implement it; all methods are safe for
// concurrent use.
type Source interface {
	// DueSchedules returns up to limit schedules that are due, in the order of their next planned time
	// and name, after the given one; nil for the first. It uses an index, whatever the number of
	// schedules.
	DueSchedules(ctx context.Context, after *State, limit int) (Due, error)

	// FireSchedule writes s as WriteSchedule does and enqueues m, unless that is nil, in one
	// transaction of its own. It returns false, and enqueues nothing, if another runner was first. A
	// message whose id is already in the outbox is not enqueued again.
	FireSchedule(ctx context.Context, s State, m *waybill.Message) (bool, error)
}

// Inspector reads what is scheduled. Stores implement it; all methods are safe for concurrent
// use.
type Inspector interface {
	// ScheduleTime returns the time by the clock that decides what is due.
	ScheduleTime(ctx context.Context) (time.Time, error)

	// Schedules returns up to limit schedules in the order of their names, after the given one.
	Schedules(ctx context.Context, after string, limit int) ([]State, error)

	// Schedule returns one schedule, or [waybill.ErrNotFound].
	Schedule(ctx context.Context, name string) (State, error)

	// ScheduledMessages returns up to limit messages that wait for their time, the first one due first,
	// after the given one, of which only DueAt and Position are used; nil for the first. It uses an
	// index on the time.
	ScheduledMessages(ctx context.Context, after *ScheduledMessage, limit int) ([]ScheduledMessage, error)

	// Scheduled returns the message that AddScheduled keeps under an id, or
	// [waybill.ErrNotFound].
	Scheduled(ctx context.Context, id string) (waybill.Message, error)

	// ScheduleStats counts what is scheduled. It reads every schedule, and of the messages those
	// that are due.
	ScheduleStats(ctx context.Context) (Stats, error)
}

// ScheduledMessage is a message that waits for its time, without its payload.
type ScheduledMessage struct {
	ID     string    `json:"id"`
	Topic  string    `json:"topic"` // or the destination address
	Type   string    `json:"type"`
	Source string    `json:"source"`
	Tenant string    `json:"tenant"`
	Key    string    `json:"key,omitempty"`
	DueAt  time.Time `json:"due_at"`

	// Cancellable says whether it was scheduled under its id, and not enqueued with DeliverAt.
	Cancellable bool `json:"cancellable"`

	// Position orders messages that are due at the same time.
	Position int64 `json:"position"`
}

// Stats are numbers about what is scheduled.
type Stats struct {
	Active, Paused, Ended int64 // recurring schedules

	// Due is the number of active schedules that are due, and Late how long the first one has been, 0
	// if there is none. Both are small while a runner is running; a schedule with the policy
	// [BufferOne] may wait longer.
	Due  int64
	Late time.Duration

	// DueMessages and LateMessages are the same for scheduled messages, which relays move into the
	// outbox.
	DueMessages  int64
	LateMessages time.Duration
}

// OperatorStore is what an [Operator] needs of a store. Stores implement it; all methods are safe
// for concurrent use.
//
// Each change is one transaction, which also records a in the audit log. If a method returns false
// nothing is stored.
type OperatorStore interface {
	Inspector

	// ChangeSchedule writes s as WriteSchedule does.
	ChangeSchedule(ctx context.Context, s State, a deadletter.Entry) (bool, error)

	// DropSchedule removes a schedule as RemoveSchedule does.
	DropSchedule(ctx context.Context, name string, a deadletter.Entry) (bool, error)

	// ScheduleMessage keeps a message as AddScheduled does, even one that is due.
	ScheduleMessage(ctx context.Context, m *waybill.Message, a deadletter.Entry) (bool, error)

	// DropScheduled removes a message as CancelScheduled does.
	DropScheduled(ctx context.Context, id string, a deadletter.Entry) (bool, error)
}

// Due is what is due at a time.
type Due struct {
	Now  time.Time // by the clock that decides what is due
	Next time.Time // when the next schedule comes due; zero if there is none
	List []DueState
}

// DueState is a schedule that is due.
type DueState struct {
	State
	Busy bool // whether the message of the latest occurrence is in the outbox or waits

	// Malformed is set if the plan cannot be read; only the name and the times are known then.
	Malformed error
}
