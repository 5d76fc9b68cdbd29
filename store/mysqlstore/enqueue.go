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

// An enqueue takes two statements in the caller's transaction: one looks for messages that are on
// their way, one stores the other messages. What was there before is left alone, because a
// transaction that locks it would hold up the relay that settles it. Only two that enqueue one
// id at the same time meet at the unique index: the second one waits for the first, and then
// stores its messages by halves, until it has found those that are not new. So it needs no right
// to change a row, which ON DUPLICATE KEY UPDATE would need for all columns, and locks no gap
// next to an id, and so the ids of others.
const (
	// knownSQL returns which messages with ids of $1 are on their way, or were enqueued within the
	// retention if $2 is set. Of an id that was noted without a tenant, by a program of an earlier
	// version, nothing else is known.
	knownSQL = `
SELECT id, source, tenant, 0 FROM {outbox} WHERE id IN ($1)
UNION ALL SELECT id, source, tenant, 0 FROM {outbox_waiting} WHERE id IN ($1)
UNION ALL SELECT id, source, tenant, source = '' AND tenant = '' FROM {outbox_ids} WHERE $2 AND id IN ($1)`

	// enqueueSQL stores messages; {rows} are their values. Positions follow their order.
	enqueueSQL = `
INSERT INTO {outbox} (id, topic, direct, {key}, type, source, tenant, subject, payload_bytes, content_type, data_schema,
    headers, correlation_id, causation_id, idempotency_key, trace_parent, trace_state, time, deliver_at, expires_at, enqueued_at)
VALUES {rows}`

	// The ids that must not come twice within the retention are stored first, and decide.
	addUniqueSQL = `INSERT INTO {outbox_ids} (id, source, tenant, enqueued_at) VALUES {rows}`
)

// maxRows is how many messages one statement stores: it takes 65,535 arguments at most.
const maxRows = 500

// enqueue leaves out what is on its way, and of several messages with one identity all but the first.
func (s *Store) enqueue(ctx context.Context, conn sqldb.Conn, msgs []waybill.Message, unique bool) ([]bool, error) {
	isNew := make([]bool, len(msgs))
	for i := 0; i < len(msgs); i += maxRows {
		end := min(i+maxRows, len(msgs))
		e := enqueuer{Store: s, ctx: ctx, conn: conn, msgs: msgs[i:end]}
		fresh, err := e.enqueue(unique)
		if err != nil {
			return nil, fmt.Errorf("enqueue %d messages: %w", len(msgs), err)
		}
		for _, n := range fresh {
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

// enqueue returns which messages are new.
func (e *enqueuer) enqueue(unique bool) ([]int, error) {
	fresh, err := e.unknown(unique)
	if err == nil && unique {
		fresh, err = e.store(e.sql.addUnique, fresh, func(m *waybill.Message) []any { return []any{m.ID, m.Source, m.Tenant} })
	}
	if err != nil {
		return nil, err
	}
	return e.store(e.sql.enqueue, fresh, sqlstore.EnqueueArgs)
}

// unknown returns the messages that nobody has seen.
func (e *enqueuer) unknown(unique bool) ([]int, error) {
	ids := make([]string, len(e.msgs))
	for i := range e.msgs {
		ids[i] = e.msgs[i].ID
	}
	seen, err := e.known(e.ctx, e.conn, ids, unique)
	var fresh []int
	for i := range e.msgs {
		if id := outbox.IdentityOf(&e.msgs[i]); !seen.has(id) {
			seen.these[id] = true
			fresh = append(fresh, i)
		}
	}
	return fresh, err
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
	row := "(" + placeholders(len(args)/len(some)) + ", " + e.sql.now + ")"
	rows := row + strings.Repeat(", "+row, len(some)-1)
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

// known are messages that are on their way, or were enqueued before.
type known struct {
	these map[outbox.Identity]bool
	any   map[string]bool // ids, whatever the source and tenant
}

func (k *known) has(id outbox.Identity) bool { return k.these[id] || k.any[id.ID] }

// known returns what is known of messages with some ids.
func (s *Store) known(ctx context.Context, conn sqldb.Conn, ids []string, unique bool) (known, error) {
	k := known{make(map[outbox.Identity]bool), make(map[string]bool)}
	rows, err := conn.Query(ctx, s.sql.known, ids, unique)
	_, err = sqldb.Collect(rows, err, func(r sqldb.Rows) (id outbox.Identity, err error) {
		whosever := false
		if err = r.Scan(&id.ID, &id.Source, &id.Tenant, &whosever); err == nil && whosever {
			k.any[id.ID] = true
		}
		k.these[id] = true
		return id, err
	})
	return k, err
}
