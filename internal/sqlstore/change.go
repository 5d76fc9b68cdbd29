package sqlstore

import (
	"cmp"
	"context"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/rows"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// lockedLetter is a dead letter that is locked until the transaction ends.
type lockedLetter struct {
	rows.LetterState
	number           int64
	topic, messageID string
}

// lockLetter runs LockLetter, and LetterWaits to tell a dead letter that is pending from one that never
// existed.
func (c *Core[Tx]) lockLetter(ctx context.Context, conn sqldb.Conn, number int64) (lockedLetter, error) {
	found, err := conn.Query(ctx, c.SQL.LockLetter, number)
	l, there, err := sqldb.One(found, err, func(r sqldb.Rows) (l lockedLetter, err error) {
		err = r.Scan(&l.Origin, &l.State, &l.Requeued, &l.Keyless, &l.topic, &l.messageID)
		return l, err
	})
	l.number = number
	if err != nil || there {
		return l, err
	}
	found, err = conn.Query(ctx, c.SQL.LetterWaits, number)
	waits, _, err := sqldb.One(found, err, sqldb.Scan[bool])
	if err == nil && !waits {
		err = notFound(number)
	}
	l.State, l.Requeued = deadletter.Open, true
	return l, err
}

// change locks a dead letter, makes a change to it, if its state allows that, and writes the audit log, in one
// transaction. fn reports whether it has changed anything, and returns details for the audit log.
func (c *Core[Tx]) change(ctx context.Context, number int64, action deadletter.Action, act deadletter.Act,
	fn func(conn sqldb.Conn, l lockedLetter) (changed bool, detail string, err error),
) (changed bool, err error) {
	if err := act.Check(); err != nil {
		return false, err
	}
	err = c.InTx(ctx, func(_ Tx, conn sqldb.Conn) error {
		l, err := c.lockLetter(ctx, conn, number)
		if err != nil {
			return err
		}
		if changed, err = rows.May(action, l.LetterState); err != nil || !changed {
			return err
		}
		var detail string
		if changed, detail, err = fn(conn, l); err != nil || !changed {
			return err
		}
		return c.audit(ctx, conn, action, act, deadletter.Entry{Letter: number, MessageID: l.messageID, Detail: cmp.Or(detail, l.Detail(action))})
	})
	if err != nil {
		return false, fmt.Errorf("%s dead letter %d: %w", action, number, err)
	}
	if changed {
		c.WakeRelay()
	}
	return changed, nil
}

// RequeueDeadLetter implements [deadletter.Store].
func (c *Core[Tx]) RequeueDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return c.change(ctx, number, deadletter.ActRequeue, act, func(conn sqldb.Conn, l lockedLetter) (bool, string, error) {
		requeued, err := c.requeue(ctx, conn, l, 0)
		return requeued, "", err
	})
}

// requeue requeues a dead letter whose state allows it, with the number of the replay that does it, 0 if none
// does. RequeueRelay makes a waiting row of a relay's dead letter, unless another message with its id, or in
// its place, is pending.
func (c *Core[Tx]) requeue(ctx context.Context, conn sqldb.Conn, l lockedLetter, replay int64) (bool, error) {
	if l.Origin == deadletter.FromConsumer {
		_, err := conn.Exec(ctx, c.SQL.RequeueConsumer, l.number, replay)
		return err == nil, err
	}
	if err := c.holdUnit(ctx, conn, l.number, l.topic); err != nil {
		return false, err
	}
	n, err := conn.Exec(ctx, c.SQL.RequeueRelay, l.number, replay)
	if err != nil || n == 0 {
		return false, err
	}
	_, err = conn.Exec(ctx, c.SQL.RemoveLetter, l.number)
	return err == nil, err
}

// holdUnit locks what a row at the dead letter's position must wait behind on the topic, so that its release
// will see the row. A row in the waiting rows cannot wait for one that is before it in the outbox.
func (c *Core[Tx]) holdUnit(ctx context.Context, conn sqldb.Conn, number int64, topic string) error {
	if c.SQL.HoldUnit != "" {
		if _, err := conn.Exec(ctx, c.SQL.HoldUnit, number, topic); err != nil {
			return err
		}
	}
	found, err := conn.Query(ctx, c.SQL.PendsBefore, number, topic)
	if before, err := sqldb.Collect(found, err, sqldb.Scan[int64]); err != nil || len(before) == 0 {
		return err
	}
	return deadletter.ErrBehind
}

// ResolveDeadLetter implements [deadletter.Store].
func (c *Core[Tx]) ResolveDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return c.settleLetter(ctx, number, deadletter.Resolved, deadletter.ActResolve, act)
}

// DiscardDeadLetter implements [deadletter.Store].
func (c *Core[Tx]) DiscardDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return c.settleLetter(ctx, number, deadletter.Discarded, deadletter.ActDiscard, act)
}

func (c *Core[Tx]) settleLetter(ctx context.Context, number int64, state deadletter.State, action deadletter.Action, act deadletter.Act) (bool, error) {
	return c.change(ctx, number, action, act, func(conn sqldb.Conn, _ lockedLetter) (bool, string, error) {
		return true, "", c.settleAs(ctx, conn, number, state, act.Why)
	})
}

// RestoreDeadLetter implements [deadletter.Store].
func (c *Core[Tx]) RestoreDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return c.change(ctx, number, deadletter.ActRestore, act, func(conn sqldb.Conn, _ lockedLetter) (bool, string, error) {
		_, err := conn.Exec(ctx, c.SQL.RestoreLetter, number)
		return err == nil, "", err
	})
}

// DeleteDeadLetter implements [deadletter.Store]. ReleaseRecord lets the inbox record of a consumer's dead
// letter expire, which stays as long as the dead letter does.
func (c *Core[Tx]) DeleteDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return c.change(ctx, number, deadletter.ActDelete, act, func(conn sqldb.Conn, _ lockedLetter) (bool, string, error) {
		err := c.settleAs(ctx, conn, number, deadletter.Discarded, "")
		for _, stmt := range [...]string{c.SQL.ReleaseRecord, c.SQL.RemoveLetter} {
			if err == nil {
				_, err = conn.Exec(ctx, stmt, number)
			}
		}
		return err == nil, "", err
	})
}

// settleAs runs SettleLetter, and ReleaseUnit, which releases what was parked behind the dead letter.
func (c *Core[Tx]) settleAs(ctx context.Context, conn sqldb.Conn, number int64, state deadletter.State, resolution string) error {
	if _, err := conn.Exec(ctx, c.SQL.SettleLetter, number, string(state), resolution); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, c.SQL.ReleaseUnit, number)
	return err
}

// EditDeadLetter implements [deadletter.Store].
func (c *Core[Tx]) EditDeadLetter(ctx context.Context, number int64, edit deadletter.Edit, act deadletter.Act) (id string, err error) {
	_, err = c.change(ctx, number, deadletter.ActEdit, act, func(conn sqldb.Conn, _ lockedLetter) (bool, string, error) {
		original, err := c.showLetter(ctx, conn, number)
		if err != nil {
			return false, "", err
		}
		copied, err := edit.Apply(&original.Message, waybill.NewID())
		if err == nil {
			err = c.requeueCopy(ctx, conn, original, copied)
		}
		if err != nil {
			return false, "", err
		}
		id = copied.ID
		return true, id, c.settleAs(ctx, conn, number, deadletter.Resolved, "edited and requeued as "+id)
	})
	if err != nil {
		return "", err
	}
	return id, nil
}

// requeueCopy lets the corrected copy of a dead letter's message take its place, unless another message has
// it. CopyToWaiting takes the dead letter's number and the message; CopyLetter, between them, alias, message key
// and fingerprint.
func (c *Core[Tx]) requeueCopy(ctx context.Context, conn sqldb.Conn, l deadletter.Letter, m waybill.Message) error {
	if l.Origin == deadletter.FromRelay {
		if err := c.holdUnit(ctx, conn, l.Number, m.Address()); err != nil {
			return err
		}
		n, err := conn.Exec(ctx, c.SQL.CopyToWaiting, append([]any{l.Number}, messageArgs(&m)...)...)
		if err == nil && n == 0 {
			err = deadletter.ErrRequeued
		}
		return err
	}
	rec := inbox.RecordOf(l.Consumer, &m)
	if _, err := c.brief(conn).Exec(ctx, c.SQL.GateDead, RecordArgs(rec)...); err != nil {
		return err
	}
	args := []any{l.Number, rec.Alias, rec.Message, fingerprint(l.Origin, l.Consumer, &m, l.Error)}
	_, err := conn.Exec(ctx, c.SQL.CopyLetter, append(args, messageArgs(&m)...)...)
	return err
}
