package mysqlstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
	"github.com/waybill-go/waybill/outbox"
)

// maxRows is how many messages one statement stores: it takes 65,535 arguments at most.
const maxRows = 500

// enqueue leaves out messages that are in flight, and of several messages with one identity all but the first.
func (s *Store) enqueue(ctx context.Context, conn sqldb.Conn, b outbox.Batch) ([]bool, error) {
	isNew := make([]bool, len(b.Messages))
	for i := 0; i < len(b.Messages); i += maxRows {
		end := min(i+maxRows, len(b.Messages))
		e := enqueuer{Store: s, ctx: ctx, conn: conn, msgs: b.Messages[i:end]}
		added, err := e.enqueue(b)
		if err != nil {
			return nil, fmt.Errorf("enqueue %d messages: %w", len(b.Messages), err)
		}
		for _, n := range added {
			isNew[i+n] = true
		}
	}
	return isNew, nil
}

// enqueuer stores a few messages. It names them by their place in msgs.
type enqueuer struct {
	*Store
	ctx  context.Context
	conn sqldb.Conn
	msgs []waybill.Message
}

// enqueue returns which messages are new. An id that is to be remembered is remembered even if its message is
// pending.
func (e *enqueuer) enqueue(b outbox.Batch) ([]int, error) {
	added := e.first()
	if b.Fresh && !b.Remember {
		return e.store(e.sql.Enqueue, added, sqlstore.EnqueueArgs)
	}
	ids := make([]string, len(e.msgs))
	for i := range e.msgs {
		ids[i] = e.msgs[i].ID
	}
	seen, err := e.known(e.ctx, e.conn, ids, b.Remember)
	if err != nil {
		return nil, err
	}
	if b.Remember {
		added = slices.DeleteFunc(added, func(n int) bool { return seen.remembers(outbox.IdentityOf(&e.msgs[n])) })
		added, err = e.store(e.sql.AddUnique, added, func(m *waybill.Message) []any { return []any{m.ID, m.Source, m.Tenant} })
		if err != nil {
			return nil, err
		}
	}
	added = slices.DeleteFunc(added, func(n int) bool { return seen.pending[outbox.IdentityOf(&e.msgs[n])] })
	return e.store(e.sql.Enqueue, added, sqlstore.EnqueueArgs)
}

// first returns the messages without those that have the identity of an earlier one.
func (e *enqueuer) first() (some []int) {
	met := make(map[outbox.Identity]bool, len(e.msgs))
	for i := range e.msgs {
		if id := outbox.IdentityOf(&e.msgs[i]); !met[id] {
			met[id] = true
			some = append(some, i)
		}
	}
	return some
}

// rowsOf returns the text for {rows}: rows copies of row, each with values parameters.
func rowsOf(row string, rows, values int) string {
	row = strings.Replace(row, "{values}", placeholders(values), 1)
	return row + strings.Repeat(", "+row, rows-1)
}

// store inserts rows, which end with the time, for some messages, and returns for which of
// them there was none.
func (e *enqueuer) store(insert string, some []int, values func(m *waybill.Message) []any) ([]int, error) {
	if len(some) == 0 {
		return nil, nil
	}
	var args []any
	for _, n := range some {
		args = append(args, values(&e.msgs[n])...)
	}
	rows := rowsOf(e.sql.Row, len(some), len(args)/len(some))
	_, err := e.conn.Exec(e.ctx, strings.Replace(insert, "{rows}", rows, 1), args...)
	switch {
	case !isDuplicate(err):
		return some, err
	case len(some) == 1:
		return nil, nil
	}
	half := len(some) / 2
	first, err := e.store(insert, some[:half], values)
	if err != nil {
		return nil, err
	}
	second, err := e.store(insert, some[half:], values)
	return slices.Concat(first, second), err
}

// known is what is known of some ids.
type known struct {
	pending    map[outbox.Identity]bool // in flight
	remembered map[outbox.Identity]bool
}

// remembers reports whether an id was enqueued before, by the same source and tenant or by an unknown one.
func (k *known) remembers(id outbox.Identity) bool {
	return k.remembered[id] || k.remembered[outbox.Identity{ID: id.ID}]
}

// known looks for ids; it returns whether they are remembered only if unique is set.
func (s *Store) known(ctx context.Context, conn sqldb.Conn, ids []string, unique bool) (known, error) {
	k := known{make(map[outbox.Identity]bool), make(map[outbox.Identity]bool)}
	rows, err := conn.Query(ctx, s.sql.Known, ids, unique)
	_, err = sqldb.Collect(rows, err, func(r sqldb.Rows) (id outbox.Identity, err error) {
		remembered := false
		err = r.Scan(&id.ID, &id.Source, &id.Tenant, &remembered)
		if remembered {
			k.remembered[id] = true
		} else {
			k.pending[id] = true
		}
		return id, err
	})
	return k, err
}
