package saga

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/schedule"
)

// Store keeps instances in transactions of type Tx, beside the messages that they send and
// schedule. Stores implement it. If tx is nil the error is an [*waybill.InvalidError] about the field
// tx.
type Store[Tx any] interface {
	schedule.Store[Tx]

	// ReadSaga returns an instance, or [waybill.ErrNotFound]. With lock nobody else changes it
	// until tx ends, where the store has locks of rows.
	ReadSaga(ctx context.Context, tx Tx, id ID, lock bool) (Instance, error)

	// WriteSaga stores in, and e in its log, in place of the version that in names; 0 adds it.
	// It returns false, and stores nothing, if the store has another version, or has one that
	// was to be added. The store sets Number, Version, the times and those of e.
	WriteSaga(ctx context.Context, tx Tx, in *Instance, e Entry) (bool, error)
}

// Inspector shows instances. Stores implement it; it is safe for concurrent use.
type Inspector interface {
	// Sagas returns the instances that f describes, without Data and Progress, the latest
	// started first, and an empty slice for none. Served by an index on the status.
	Sagas(ctx context.Context, f Filter) ([]Instance, error)

	// Saga returns an instance as it is, or [waybill.ErrNotFound].
	Saga(ctx context.Context, id ID) (Instance, error)

	// SagaLog returns up to limit changes of an instance in their order, behind the given
	// version; 0 for the first. It is empty if there are none, or no such instance.
	SagaLog(ctx context.Context, id ID, after int64, limit int) ([]Entry, error)

	// SagaCounts returns how many instances there are, by saga and status, in that order.
	SagaCounts(ctx context.Context) ([]Count, error)
}

// Filter narrows a list of instances. Empty fields match everything.
type Filter struct {
	Tenant string
	Saga   string
	Key    string
	Status Status
	Before int64 // only instances with a lower number, for paging
	Limit  int   // the default is 100
}

// Count is how many instances of a saga have a status.
type Count struct {
	Saga   string        `json:"saga"`
	Status Status        `json:"status"`
	Count  int64         `json:"count"`
	Idle   time.Duration `json:"idle"` // since the change that is the longest ago; 0 of those that have ended
}

// OperatorStore is what an [Operator] needs of a store. Stores implement it; it is safe for
// concurrent use.
type OperatorStore interface {
	Inspector

	// ChangeSaga writes in as WriteSaga does, schedules m for now and records a in the audit log,
	// in one transaction of its own: a relay moves m into the outbox at its next poll, so that
	// who operates needs no right to enqueue. It returns false, and stores nothing, if the store
	// has another version.
	ChangeSaga(ctx context.Context, in Instance, e Entry, m *waybill.Message, a deadletter.Entry) (bool, error)
}
