package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/sqldb"
)

const requeueWait = 5 * time.Second // before a requeued letter that met an outage is tried again

// requeuedLetter is a letter that its consumer is to run again.
type requeuedLetter struct {
	number  int64
	key     inbox.Key
	message waybill.Message
}

// RunRequeued implements [inbox.Inbox]. TakeRequeued takes the consumer and returns number,
// alias, message key and message of a letter, and keeps others from taking it until the
// transaction ends. RemoveLetter takes the number, Revive the inbox key.
func (c *Core[Tx]) RunRequeued(ctx context.Context, consumer, node string, fn func(ctx context.Context, tx Tx, m *waybill.Message) error) (bool, error) {
	var letter requeuedLetter
	var found bool
	began := time.Now()
	err := c.InTx(ctx, func(tx Tx, conn sqldb.Conn) (err error) {
		if letter, found, err = c.takeRequeued(ctx, conn, consumer); err != nil || !found {
			return err
		}
		if fresh, err := c.open(ctx, conn, letter); err != nil || !fresh {
			return err
		}
		if _, err := conn.Exec(ctx, c.SQL.RemoveLetter, letter.number); err != nil {
			return err
		}
		return FromCaller(fn(ctx, tx, &letter.message))
	})
	switch {
	case err == nil && found:
		c.WakeRelay()
		return true, nil
	case !found:
		return false, err
	}
	return true, errors.Join(err, c.failRequeued(ctx, letter, node, time.Since(began), err))
}

func (c *Core[Tx]) takeRequeued(ctx context.Context, conn sqldb.Conn, consumer string) (requeuedLetter, bool, error) {
	rows, err := conn.Query(ctx, c.SQL.TakeRequeued, consumer)
	return sqldb.One(rows, err, func(r sqldb.Rows) (l requeuedLetter, err error) {
		var row sqldb.MessageRow
		if err := r.Scan(append([]any{&l.number, &l.key.Alias, &l.key.Message}, row.Dest()...)...); err != nil {
			return l, err
		}
		l.message, _ = row.Message() // it was good enough for a letter; the handler judges it
		l.key.Tenant, l.key.Consumer, l.key.Source = l.message.Tenant, consumer, l.message.Source
		return l, nil
	})
}

// open passes the gate for a requeued letter: its dead record, or a new one where that was
// removed, becomes a processed one. It returns false if the message was processed meanwhile,
// and resolves the letter then.
func (c *Core[Tx]) open(ctx context.Context, conn sqldb.Conn, l requeuedLetter) (bool, error) {
	rec := inbox.RecordOf(l.key.Consumer, &l.message)
	rec.Key = l.key
	if n, err := conn.Exec(ctx, c.SQL.Gate, recordArgs(rec)...); err != nil || n > 0 {
		return err == nil, err
	}
	rows, err := conn.Query(ctx, c.SQL.GateOutcome, keyArgs(l.key)...)
	r, found, err := sqldb.One(rows, err, scanSeen)
	switch {
	case err != nil:
		return false, err
	case !found: // removed between the two statements
		return false, waybill.ConflictError(errors.New("inbox record vanished"))
	case r.dead:
		_, err := conn.Exec(ctx, c.SQL.Revive, keyArgs(l.key)...)
		return err == nil, err
	}
	if err := c.settleAs(ctx, conn, l.number, deadletter.Resolved, deadletter.HadEffect); err != nil {
		return false, err
	}
	return false, c.audit(ctx, conn, deadletter.ActEffect, deadletter.Act{By: l.key.Consumer, Why: deadletter.HadEffect},
		deadletter.Entry{Letter: l.number, MessageID: l.message.ID})
}

// failRequeued runs FailRequeued with the letter's number, the new error and reason, whether
// the letter is dead again, the milliseconds to wait if it is not, the new fingerprint, the
// node and the nanoseconds that the attempt took.
func (c *Core[Tx]) failRequeued(ctx context.Context, l requeuedLetter, node string, took time.Duration, cause error) error {
	kind := waybill.KindOf(cause)
	deadAgain := kind == waybill.Transient || kind == waybill.Permanent
	reason := waybill.ReasonExhausted
	if kind == waybill.Permanent {
		reason = waybill.ReasonOf(cause)
	}
	text := waybill.ErrorText(cause)
	group := fingerprint(deadletter.FromConsumer, l.key.Consumer, &l.message, text)
	_, err := c.DB.Exec(ctx, c.SQL.FailRequeued, l.number, text, string(reason), deadAgain, Millis(requeueWait), group, node, int64(took))
	return c.Kind(err)
}
