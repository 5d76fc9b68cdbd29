package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-go/waybill/internal/span"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/saga"
)

// defaultSagas is the default maximum number of instances in a list.
const defaultSagas = 100

// everyStatus is true for all. It lets the index on status and saga serve a list of one saga.
var everyStatus = func() string {
	quoted := make([]string, len(saga.Statuses))
	for i, s := range saga.Statuses {
		quoted[i] = "'" + string(s) + "'"
	}
	return "status IN (" + strings.Join(quoted, ", ") + ")"
}()

// sagasOf returns the conditions of a filter.
func sagasOf(f saga.Filter) *where {
	w := &where{}
	if f.Saga != "" && f.Status == "" && f.Key == "" {
		w.conditions = append(w.conditions, everyStatus)
	}
	equal(w, "status", string(f.Status))
	equal(w, "saga", f.Saga)
	equal(w, "tenant", f.Tenant)
	equal(w, "{key}", f.Key)
	if f.Before != 0 {
		w.add("number < ?", f.Before)
	}
	if f.Limit <= 0 {
		f.Limit = defaultSagas
	}
	w.end = fmt.Sprintf("ORDER BY number DESC LIMIT %d", f.Limit)
	return w
}

// Sagas implements [saga.Inspector]. List is followed by the conditions of the filter, the order
// and the limit.
func (c *Core[Tx]) Sagas(ctx context.Context, f saga.Filter) (list []saga.Instance, err error) {
	w := sagasOf(f)
	err = c.plannedAfresh(ctx, func(conn sqldb.Conn) error {
		rows, err := conn.Query(ctx, c.SQL.Sagas.List+" "+c.Render(w.sql()), w.args...)
		list, err = sqldb.Collect(rows, err, scanListedSaga)
		return err
	})
	return list, c.Kind(err)
}

// SagaLog implements [saga.Inspector].
func (c *Core[Tx]) SagaLog(ctx context.Context, id saga.ID, after int64, limit int) ([]saga.Entry, error) {
	rows, err := c.DB.Query(ctx, c.SQL.Sagas.Entries, append(idArgs(id), after, max(limit, 0))...)
	list, err := sqldb.Collect(rows, err, func(r sqldb.Rows) (e saga.Entry, err error) {
		var at sqldb.Time
		err = r.Scan(&e.Version, &at, &e.MessageID, &e.MessageType, &e.From, &e.To, &e.Status, &e.Definition, &e.Node, &e.Note)
		e.At = at.UTC()
		return e, err
	})
	return list, c.Kind(err)
}

// SagaCounts implements [saga.Inspector].
func (c *Core[Tx]) SagaCounts(ctx context.Context) ([]saga.Count, error) {
	rows, err := c.DB.Query(ctx, c.SQL.Sagas.Counts)
	list, err := sqldb.Collect(rows, err, func(r sqldb.Rows) (n saga.Count, err error) {
		var idle float64
		err = r.Scan(&n.Saga, &n.Status, &n.Count, &idle)
		n.Idle = span.Of(idle, time.Second)
		return n, err
	})
	return list, c.Kind(err)
}
