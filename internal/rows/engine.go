package rows

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/outbox"
)

// Store is what the engine runs on. S is the transaction type of the store's users.
type Store[S any] interface {
	// Run runs fn in a transaction. One that conflicts with another is rolled back, and run again if again is
	// nil or returns true; else the error is a conflict.
	Run(ctx context.Context, again func() bool, fn func(ctx context.Context, t *Tx, session S) error) error

	// On returns the tables in the caller's transaction, at the time that it is now, and the context for their
	// methods. The error is an [*waybill.InvalidError] if session is nil.
	On(ctx context.Context, session S) (context.Context, *Tx, error)

	// WakeRelay tells relays that there may be something to publish.
	WakeRelay()
}

// Engine implements what relays, consumers and operators need from a store, except AwaitMessages. A store
// embeds it, and overrides methods that it can do better. It is safe for concurrent use.
type Engine[S any] struct{ store Store[S] }

// NewEngine returns the engine of a store.
func NewEngine[S any](s Store[S]) Engine[S] { return Engine[S]{s} }

// WakeRelay implements [outbox.Store].
func (e *Engine[S]) WakeRelay() { e.store.WakeRelay() }

// run runs a function that needs no session, repeating it after conflicts.
func (e *Engine[S]) run(ctx context.Context, fn func(ctx context.Context, t *Tx) error) error {
	return e.store.Run(ctx, nil, func(ctx context.Context, t *Tx, _ S) error { return fn(ctx, t) })
}

// Transact implements [outbox.Store].
func (e *Engine[S]) Transact(ctx context.Context, fn func(ctx context.Context, session S) (outbox.Batch, error)) (isNew []bool, err error) {
	never := func() bool { return false }
	err = e.store.Run(ctx, never, func(ctx context.Context, t *Tx, session S) error {
		b, err := fn(ctx, session)
		if err != nil {
			return err
		}
		isNew, err = t.Enqueue(ctx, b)
		return err
	})
	if err != nil {
		return nil, err
	}
	e.store.WakeRelay()
	return isNew, nil
}

// EnqueueMessages implements [outbox.Store].
func (e *Engine[S]) EnqueueMessages(ctx context.Context, session S, b outbox.Batch) ([]bool, error) {
	ctx, t, err := e.store.On(ctx, session)
	if err != nil {
		return nil, err
	}
	return t.Enqueue(ctx, b)
}

// CancelEnqueued implements [outbox.Store].
func (e *Engine[S]) CancelEnqueued(ctx context.Context, session S, id outbox.Identity) (outbox.Cancellation, error) {
	ctx, t, err := e.store.On(ctx, session)
	if err != nil {
		return outbox.Cancellation{}, err
	}
	return t.Cancel(ctx, id)
}

// ProcessOnce implements [contract.Inbox].
func (e *Engine[S]) ProcessOnce(ctx context.Context, rec inbox.Record, fn func(ctx context.Context, session S) error) (inbox.Outcome, error) {
	outcomes, err := e.ProcessBatch(ctx, []inbox.Record{rec}, func(ctx context.Context, session S, _ []int) error { return fn(ctx, session) })
	if err != nil {
		return 0, err
	}
	return outcomes[0], nil
}

// ProcessBatch implements [contract.Batcher]. A handler that conflicts with another transaction is not run again
// here.
func (e *Engine[S]) ProcessBatch(ctx context.Context, recs []inbox.Record, fn func(ctx context.Context, session S, fresh []int) error) (outcomes []inbox.Outcome, err error) {
	if err := contract.ValidateBatch(recs); err != nil {
		return nil, err
	}
	if len(recs) == 0 {
		return []inbox.Outcome{}, nil
	}
	began := false
	err = e.store.Run(ctx, func() bool { return !began }, func(ctx context.Context, t *Tx, session S) error {
		var fresh []int
		if outcomes, fresh, err = t.Gate(ctx, recs); err != nil || len(fresh) == 0 {
			return err
		}
		began = true
		return fn(ctx, session, fresh)
	})
	if err != nil {
		return nil, err
	}
	e.store.WakeRelay() // the handler may have enqueued
	return outcomes, nil
}

// SaveStarts implements [contract.Inbox].
func (e *Engine[S]) SaveStarts(ctx context.Context, key inbox.Key, starts int) error {
	return e.run(ctx, func(ctx context.Context, t *Tx) error { return t.SaveStarts(ctx, key, starts) })
}

// BuryMessage implements [contract.Inbox].
func (e *Engine[S]) BuryMessage(ctx context.Context, l inbox.Letter) (buried bool, err error) {
	err = e.run(ctx, func(ctx context.Context, t *Tx) error {
		buried, err = t.Bury(ctx, l)
		return err
	})
	return buried && err == nil, err
}

// InboxSize implements [inspect.InboxSizer]. Round trips: 2.
func (e *Engine[S]) InboxSize(ctx context.Context) (size inspect.InboxSize, err error) {
	err = e.run(ctx, func(ctx context.Context, t *Tx) error {
		n, err := t.Inbox.Count(ctx)
		if err != nil {
			return err
		}
		oldest, err := first(ctx, t.Inbox, Query[*Record]{}.sorted(records.ProcessedAt.rising()))
		size.Records = int64(n)
		if oldest != nil {
			size.Oldest = max(0, t.Now.Sub(oldest.ProcessedAt))
		}
		return err
	})
	return size, err
}

// AddRecord implements [inbox.Recorder].
func (e *Engine[S]) AddRecord(ctx context.Context, session S, rec inbox.Record) (bool, error) {
	ctx, t, err := e.store.On(ctx, session)
	if err != nil {
		return false, err
	}
	return t.addRecord(ctx, rec)
}

// FindRecord implements [inbox.Recorder]. Round trips: 1.
func (e *Engine[S]) FindRecord(ctx context.Context, session S, key inbox.Key) (inbox.StoredRecord, bool, error) {
	ctx, t, err := e.store.On(ctx, session)
	if err != nil {
		return inbox.StoredRecord{}, false, err
	}
	r, err := get(ctx, t.Inbox, key)
	if err != nil || r == nil {
		return inbox.StoredRecord{}, false, err
	}
	return inbox.StoredRecord{Record: r.Record, ProcessedAt: r.ProcessedAt.UTC(), Dead: r.Dead}, true, nil
}

// RemoveRecords implements [inbox.Recorder]. Round trips: 2.
func (e *Engine[S]) RemoveRecords(ctx context.Context, session S, tenant string, age time.Duration, limit int) (int, error) {
	ctx, t, err := e.store.On(ctx, session)
	switch {
	case err != nil:
		return 0, err
	case tenant == "":
		return 0, &waybill.InvalidError{Field: "tenant", Reason: "is required"}
	case limit <= 0:
		return 0, nil
	}
	return t.removeRecords(ctx, expiredRecords(tenant, t.Now.Add(-age)), limit)
}
