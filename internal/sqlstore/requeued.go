package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill"
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
func (c *Core[Tx]) RunRequeued(ctx context.Context, consumer string, fn func(ctx context.Context, tx Tx, m *waybill.Message) error) (bool, error) {
	var letter requeuedLetter
	var found bool
	err := c.InTx(ctx, func(tx Tx, conn sqldb.Conn) (err error) {
		if letter, found, err = c.takeRequeued(ctx, conn, consumer); err != nil || !found {
			return err
		}
		if _, err := conn.Exec(ctx, c.SQL.RemoveLetter, letter.number); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, c.SQL.Revive, keyArgs(letter.key)...); err != nil {
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
	return true, errors.Join(err, c.failRequeued(ctx, letter.number, err))
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

// failRequeued runs FailRequeued with the letter's number, the new error and reason, whether
// the letter is dead again, and the milliseconds to wait if it is not.
func (c *Core[Tx]) failRequeued(ctx context.Context, number int64, cause error) error {
	kind := waybill.KindOf(cause)
	deadAgain := kind == waybill.Transient || kind == waybill.Permanent
	reason := waybill.ReasonExhausted
	if kind == waybill.Permanent {
		reason = waybill.ReasonOf(cause)
	}
	_, err := c.DB.Exec(ctx, c.SQL.FailRequeued, number, waybill.ErrorText(cause), string(reason), deadAgain, Millis(requeueWait))
	return c.Kind(err)
}
