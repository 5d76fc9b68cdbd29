package saga

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/schedule"
)

// Store keeps instances in transactions of type Tx, together with the messages that they send and
// schedule. Stores implement it. If tx is nil the error is an [*waybill.InvalidError] about the field
// tx.
type Store[Tx any] interface {
	schedule.Store[Tx]

	// ReadSaga returns an instance, or [waybill.ErrNotFound]. With lock the row is locked until tx
	// ends, if the store has row locks.
	ReadSaga(ctx context.Context, tx Tx, id ID, lock bool) (Instance, error)

	// WriteSaga stores in, and e in its log, replacing the version that in names; 0 adds it. It returns
	// false, and stores nothing, if the store has another version, or already has an instance that was
	// to be added. The store sets Number, Version and the times of in, and Version and time of e.
	WriteSaga(ctx context.Context, tx Tx, in *Instance, e Entry) (bool, error)
}

// Inspector reads instances. Stores implement it; it is safe for concurrent use.
type Inspector interface {
	// Sagas returns the instances that match f, without Data and Progress, the latest started first,
	// and an empty slice for none. It uses an index on the status.
	Sagas(ctx context.Context, f Filter) ([]Instance, error)

	// Saga returns an instance as it is, or [waybill.ErrNotFound].
	Saga(ctx context.Context, id ID) (Instance, error)

	// SagaLog returns up to limit changes of an instance in order, after the given version; 0 for the
	// first. It is empty if there are none, or no such instance.
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

// Count is the number of instances of a saga with a status.
type Count struct {
	Saga   string        `json:"saga"`
	Status Status        `json:"status"`
	Count  int64         `json:"count"`
	Idle   time.Duration `json:"idle"` // since the last change of the instance idle for longest; 0 if they have ended
}

// OperatorStore is what an [Operator] needs of a store. Stores implement it; it is safe for
// concurrent use.
type OperatorStore interface {
	Inspector

	// ChangeSaga writes in as WriteSaga does, schedules m for now and records a in the audit log,
	// in one transaction of its own: a relay moves m into the outbox at its next poll, so that
	// operators need no right to enqueue. It returns false, and stores nothing, if the store
	// has another version.
	ChangeSaga(ctx context.Context, in Instance, e Entry, m *waybill.Message, a deadletter.Entry) (bool, error)
}
