package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// DeadLetters implements [deadletter.Store]. ListLetters takes the filter's fields in the
// order number, origin, consumer, topic, type, tenant, limit and whether resolved.
func (c *Core[Tx]) DeadLetters(ctx context.Context, f deadletter.Filter) ([]deadletter.Letter, error) {
	limit := f.Limit
	if limit == 0 {
		limit = deadletter.DefaultLimit
	}
	rows, err := c.DB.Query(ctx, c.SQL.ListLetters, f.After, string(f.Origin), f.Consumer, f.Topic, f.Type, f.Tenant, limit, f.State == deadletter.Resolved)
	letters, err := sqldb.Collect(rows, err, scanLetter)
	return letters, c.Kind(err)
}

func scanLetter(r sqldb.Rows) (l deadletter.Letter, err error) {
	var row sqldb.MessageRow
	var first, last, resolved sqldb.Time
	err = r.Scan(append([]any{
		&l.Number, &l.Origin, &l.Consumer, &l.Destination, &l.Reason, &l.Error, &l.Attempts, &l.Requeues, &l.Failed, &l.Requeued,
		&first, &last, &resolved, &l.Resolution, &l.Parks, &l.Behind}, row.Dest()...)...)
	l.FirstFailed, l.LastFailed, l.ResolvedAt = first.UTC(), last.UTC(), resolved.Pointer()
	l.Message, _ = row.Message() // a malformed row is why it may be here
	return l, err
}

// RequeueConsumerLetter marks a consumer's letter, and reports whether there was one to
// mark. It explains why there was none: nil if the letter, or another message with its id,
// is on its way, else an error.
func (c *Core[Tx]) RequeueConsumerLetter(ctx context.Context, number int64) (bool, error) {
	n, err := c.DB.Exec(ctx, c.SQL.RequeueConsumer, number)
	if err != nil {
		return false, c.Kind(fmt.Errorf("requeue dead letter %d: %w", number, err))
	}
	if n > 0 {
		return true, nil
	}
	switch state, err := c.letterState(ctx, number); {
	case err != nil:
		return false, err
	case state == "resolved":
		return false, fmt.Errorf("dead letter %d: %w", number, deadletter.ErrResolved)
	case state == "without key":
		return false, waybill.PermanentError(waybill.ReasonNoID, fmt.Errorf(
			"dead letter %d has no inbox key: its message has no id, or another one was processed under it; it cannot be run again safely", number))
	}
	return false, nil
}

// letterState runs LetterState, which says where a letter is: "dead", "resolved", "requeued",
// or "without key" for a consumer's that has no inbox key.
func (c *Core[Tx]) letterState(ctx context.Context, number int64) (string, error) {
	rows, err := c.DB.Query(ctx, c.SQL.LetterState, number)
	state, found, err := sqldb.One(rows, err, sqldb.Scan[string])
	if err == nil && !found {
		err = fmt.Errorf("dead letter %d: %w", number, waybill.ErrNotFound)
	}
	return state, c.Kind(err)
}

// ResolveDeadLetter implements [deadletter.Store]. ResolveLetter takes the number and the
// resolution and changes a letter that is neither requeued nor resolved; ReleaseUnit takes
// the number and lets what was parked behind it go.
func (c *Core[Tx]) ResolveDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	if err := act.Check(); err != nil {
		return false, err
	}
	var n int64
	err := c.InTx(ctx, func(_ Tx, conn sqldb.Conn) (err error) {
		if n, err = conn.Exec(ctx, c.SQL.ResolveLetter, number, act.Why); err == nil && n > 0 {
			_, err = conn.Exec(ctx, c.SQL.ReleaseUnit, number)
		}
		if err != nil {
			return fmt.Errorf("resolve dead letter %d: %w", number, err)
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	if n > 0 {
		c.WakeRelay()
		return true, nil
	}
	state, err := c.letterState(ctx, number)
	if err == nil && state != "resolved" {
		err = fmt.Errorf("dead letter %d: %w", number, deadletter.ErrRequeued)
	}
	return false, err
}

// DeadLetter implements [deadletter.Store].
func (c *Core[Tx]) DeadLetter(ctx context.Context, number int64) (deadletter.Letter, error) {
	return deadletter.Letter{}, errors.ErrUnsupported
}

// DeadLetterGroups implements [deadletter.Store].
func (c *Core[Tx]) DeadLetterGroups(ctx context.Context, limit int) ([]deadletter.Group, error) {
	return nil, errors.ErrUnsupported
}

// DiscardDeadLetter implements [deadletter.Store].
func (c *Core[Tx]) DiscardDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return false, errors.ErrUnsupported
}

// EditDeadLetter implements [deadletter.Store].
func (c *Core[Tx]) EditDeadLetter(ctx context.Context, number int64, edit deadletter.Edit, act deadletter.Act) (string, error) {
	return "", errors.ErrUnsupported
}

// AuditLog implements [deadletter.Store].
func (c *Core[Tx]) AuditLog(ctx context.Context, f deadletter.AuditFilter) ([]deadletter.Entry, error) {
	return nil, errors.ErrUnsupported
}
