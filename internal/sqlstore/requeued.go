package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/rows"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// TakeRequeued implements [contract.Inbox]. The statement takes the consumer and the
// milliseconds of the lease. It changes the dead letter, and returns its number, alias, message key
// and message; or it locks the dead letter, and LeaseRequeued, which takes the number and the
// milliseconds, changes it.
func (c *Core[Tx]) TakeRequeued(ctx context.Context, consumer string, lease time.Duration) (letter contract.Requeued, found bool, err error) {
	if c.SQL.AnyRequeued != "" {
		list, err := c.DB.Query(ctx, c.SQL.AnyRequeued, consumer)
		if waits, _, err := sqldb.One(list, err, sqldb.Scan[bool]); err != nil || !waits {
			return contract.Requeued{}, false, c.Kind(err)
		}
	}
	err = c.InTx(ctx, func(_ Tx, conn sqldb.Conn) (err error) {
		list, err := conn.Query(ctx, c.SQL.TakeRequeued, consumer, Millis(lease))
		letter, found, err = sqldb.One(list, err, func(r sqldb.Rows) (l contract.Requeued, err error) {
			var row sqldb.MessageRow
			if err := r.Scan(append([]any{&l.Number, &l.Key.Alias, &l.Key.Message}, row.Dest()...)...); err != nil {
				return l, err
			}
			l.Message, _ = row.Message() // it was valid enough for a dead letter; the handler judges it
			l.Key.Tenant, l.Key.Consumer, l.Key.Source = l.Message.Tenant, consumer, l.Message.Source
			return l, nil
		})
		if err == nil && found && c.SQL.LeaseRequeued != "" {
			_, err = conn.Exec(ctx, c.SQL.LeaseRequeued, letter.Number, Millis(lease))
		}
		return err
	})
	return letter, found && err == nil, err
}

// RunRequeued implements [contract.Inbox]. HoldRequeued takes the dead letter's number and returns it
// if it is still requeued; it keeps others from running it until the transaction ends. RemoveLetter
// takes the number, Revive the inbox key.
func (c *Core[Tx]) RunRequeued(ctx context.Context, letter contract.Requeued, node string, fn func(ctx context.Context, tx Tx) error) (bool, error) {
	var found bool
	rec := inbox.RecordOf(letter.Key.Consumer, &letter.Message)
	rec.Key = letter.Key
	if err := c.beforeGate(ctx, rec); err != nil {
		return false, err
	}
	began, ran := time.Now(), false
	err := sqldb.InTx(ctx, c.callers(), func(tx Tx) (err error) {
		conn := c.DB.On(tx)
		list, err := conn.Query(ctx, c.SQL.HoldRequeued, letter.Number)
		if _, found, err = sqldb.One(list, err, sqldb.Scan[int64]); err != nil || !found {
			return err
		}
		if _, err := conn.Exec(ctx, c.SQL.ClearAttempts, keyArgs(letter.Key)...); err != nil {
			return err
		}
		if fresh, err := c.open(ctx, conn, letter, rec); err != nil || !fresh {
			return err
		}
		if _, err := conn.Exec(ctx, c.SQL.RemoveLetter, letter.Number); err != nil {
			return err
		}
		ran = true
		return FromCaller(fn(ctx, tx))
	})
	err = c.kindAfter(ctx, ran, err)
	switch {
	case err == nil && found:
		c.WakeRelay()
		return true, nil
	case !found:
		return false, err
	}
	return true, errors.Join(err, c.failRequeued(ctx, letter, node, time.Since(began), err))
}

// open makes the inbox record of a requeued dead letter a processed one, or adds a new one if it
// was removed. It returns false if the message was processed meanwhile, and then resolves the dead
// letter.
func (c *Core[Tx]) open(ctx context.Context, conn sqldb.Conn, l contract.Requeued, rec inbox.Record) (bool, error) {
	if n, err := conn.Exec(ctx, c.SQL.Gate, RecordArgs(rec)...); err != nil || n > 0 {
		return err == nil, err
	}
	list, err := conn.Query(ctx, c.SQL.GateOutcome, keyArgs(l.Key)...)
	r, found, err := sqldb.One(list, err, scanSeen)
	switch {
	case err != nil:
		return false, err
	case !found:
		return false, waybill.ConflictError(errVanished)
	case r.Dead:
		_, err := conn.Exec(ctx, c.SQL.Revive, keyArgs(l.Key)...)
		return err == nil, err
	}
	if err := c.settleAs(ctx, conn, l.Number, deadletter.Resolved, deadletter.HadEffect); err != nil {
		return false, err
	}
	return false, c.audit(ctx, conn, deadletter.ActEffect, deadletter.Act{By: l.Key.Consumer, Why: deadletter.HadEffect},
		deadletter.Entry{Letter: l.Number, MessageID: l.Message.ID})
}

// failRequeued runs FailRequeued with the dead letter's number, the new error and reason, whether
// the message is dead-lettered again, the milliseconds to wait if it is not, the new fingerprint,
// the node and the nanoseconds that the attempt took. It also clears the recorded start.
func (c *Core[Tx]) failRequeued(ctx context.Context, l contract.Requeued, node string, took time.Duration, cause error) error {
	f, forget := rows.FailureOf(cause), c.SQL.ClearStarts
	if f.DeadAgain {
		forget = c.SQL.ClearAttempts
	}
	group := fingerprint(deadletter.FromConsumer, l.Key.Consumer, &l.Message, f.Error)
	return c.InTx(ctx, func(_ Tx, conn sqldb.Conn) error {
		_, err := conn.Exec(ctx, c.SQL.FailRequeued, l.Number, f.Error, string(f.Reason), f.DeadAgain, Millis(rows.RequeueWait), group, node, int64(took))
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, forget, keyArgs(l.Key)...)
		return err
	})
}
