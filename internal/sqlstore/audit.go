package sqlstore

import (
	"context"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// AuditLog implements [deadletter.Store]. ListAudit is followed by the conditions of the filter,
// the order and the limit.
func (c *Core[Tx]) AuditLog(ctx context.Context, f deadletter.AuditFilter) ([]deadletter.Entry, error) {
	w := entriesOf(f)
	rows, err := c.DB.Query(ctx, c.SQL.ListAudit+" "+c.Render(w.sql()), w.args...)
	entries, err := sqldb.Collect(rows, err, func(r sqldb.Rows) (e deadletter.Entry, err error) {
		var at sqldb.Time
		err = r.Scan(&e.Number, &at, &e.Action, &e.By, &e.Why, &e.Letter, &e.MessageID, &e.Replay, &e.Detail)
		e.At = at.UTC()
		return e, err
	})
	return entries, c.Kind(err)
}

// audit writes an entry in the transaction of the change; e says what it is about.
func (c *Core[Tx]) audit(ctx context.Context, conn sqldb.Conn, action deadletter.Action, act deadletter.Act, e deadletter.Entry) error {
	_, err := conn.Exec(ctx, c.SQL.Audit, string(action), act.By, act.Why, e.Letter, e.MessageID, e.Replay, e.Detail)
	return err
}

// RecordAudit implements [deadletter.Auditor].
func (c *Core[Tx]) RecordAudit(ctx context.Context, e deadletter.Entry) error {
	act := deadletter.Act{By: e.By, Why: e.Why}
	if err := act.Check(); err != nil {
		return err
	}
	return c.Kind(c.audit(ctx, c.DB, e.Action, act, e))
}
