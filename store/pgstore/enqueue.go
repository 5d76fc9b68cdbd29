package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/outbox"
)

// enqueueOneSQL stores one message in the caller's transaction. The unique index on what messages
// are known by makes a repeated one store nothing without aborting the transaction; the look into
// the waiting rows, by their unique index, does the same for a message that has left the outbox for
// a while. The number of rows tells whether it is new.
const enqueueOneSQL = `
INSERT INTO {outbox} ({columns})
SELECT {values}
WHERE NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = {id} AND w.source = {source} AND w.tenant = {tenant})
ON CONFLICT (id, source, tenant) DO NOTHING`

// enqueueManySQL does the same for several. Positions follow the order of the arrays.
const enqueueManySQL = `
INSERT INTO {outbox} ({columns})
SELECT {values}
FROM unnest({arrays}) WITH ORDINALITY AS i({columns}, ord)
WHERE NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = {id} AND w.source = {source} AND w.tenant = {tenant})
ORDER BY i.ord
ON CONFLICT (id, source, tenant) DO NOTHING
RETURNING id, source, tenant`

// enqueueUniqueSQL does the same for messages that must not come twice within the retention: the
// primary key of outbox_ids decides first. An id without a tenant was noted by a program of a
// version that knew no more of it.
const enqueueUniqueSQL = `
WITH added AS (
    INSERT INTO {outbox_ids} (id, source, tenant)
    SELECT DISTINCT {id}, {source}, {tenant} FROM unnest({identity_arrays}) AS i({identity_columns})
     WHERE NOT EXISTS (SELECT 1 FROM {outbox_ids} u WHERE u.id = {id} AND u.source = '' AND u.tenant = '')
    ON CONFLICT (id, source, tenant) DO NOTHING
    RETURNING id, source, tenant
)
INSERT INTO {outbox} ({columns})
SELECT {values}
FROM unnest({arrays}) WITH ORDINALITY AS i({columns}, ord)
JOIN added a ON a.id = {id} AND a.source = {source} AND a.tenant = {tenant}
WHERE NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = {id} AND w.source = {source} AND w.tenant = {tenant})
ORDER BY i.ord
ON CONFLICT (id, source, tenant) DO NOTHING
RETURNING id, source, tenant`

// enqueueShape is what the text of an enqueue depends on. An application has as many shapes
// as it has ways to fill in a message, and each is prepared once per connection.
type enqueueShape struct {
	fields       fieldSet
	many, unique bool
}

func (e enqueueShape) sql() string {
	text := enqueueOneSQL
	value := func(n int, f *field) string { return fmt.Sprintf("$%d::%s%s", n, f.kind, f.cast) }
	switch {
	case e.unique:
		text = enqueueUniqueSQL
	case e.many:
		text = enqueueManySQL
	}
	if e.many {
		value = func(_ int, f *field) string { return "i." + f.name + f.cast }
	}
	array := func(n int, f *field) string { return fmt.Sprintf("$%d::%s[]", n, f.kind) }
	name := func(_ int, f *field) string { return f.name }
	return strings.NewReplacer(
		"{columns}", e.fields.list(name), "{values}", e.fields.list(value), "{arrays}", e.fields.list(array),
		"{identity_columns}", e.fields.some(identifies, name), "{identity_arrays}", e.fields.some(identifies, array),
		"{id}", e.fields.one("id", value), "{source}", e.fields.one("source", value),
		"{tenant}", cmp.Or(e.fields.one("tenant", value), quoteText(waybill.DefaultTenant)+"::text"),
	).Replace(text)
}

// enqueueStatements keeps the texts of the shapes that were met.
type enqueueStatements struct {
	render func(sql string) string
	texts  sync.Map // of string, by enqueueShape
}

func (e *enqueueStatements) text(shape enqueueShape) string {
	if text, ok := e.texts.Load(shape); ok {
		return text.(string)
	}
	text, _ := e.texts.LoadOrStore(shape, e.render(shape.sql()))
	return text.(string)
}

// statement returns what stores msgs, at least one. With many it returns the ids that it
// has stored, else it changes one row or none.
func (e *enqueueStatements) statement(msgs []waybill.Message, unique bool) (sql string, args []any, many bool) {
	many = len(msgs) > 1 || unique
	fields := fieldsOf(msgs)
	return e.text(enqueueShape{fields, many, unique}), fields.args(msgs, many), many
}

// enqueue stores messages with one statement and one round trip.
func (s *Store[Tx]) enqueue(ctx context.Context, conn sqldb.Conn, msgs []waybill.Message, unique bool) (isNew []bool, err error) {
	if len(msgs) == 0 {
		return nil, nil
	}
	sql, args, many := s.enqueues.statement(msgs, unique)
	if many {
		rows, queryErr := conn.Query(ctx, sql, args...)
		isNew, err = readNew(msgs, rows, queryErr)
	} else {
		var n int64
		n, err = conn.Exec(ctx, sql, args...)
		isNew = []bool{n == 1}
	}
	if err != nil {
		return nil, fmt.Errorf("enqueue %d messages: %w", len(msgs), err)
	}
	return isNew, nil
}

// readNew reports for each message whether its identity is among rows; of several messages with
// one identity the first counts.
func readNew(msgs []waybill.Message, rows sqldb.Rows, err error) ([]bool, error) {
	added, err := sqldb.Collect(rows, err, func(r sqldb.Rows) (id outbox.Identity, err error) {
		err = r.Scan(&id.ID, &id.Source, &id.Tenant)
		return id, err
	})
	if err != nil {
		return nil, err
	}
	if len(added) == len(msgs) { // none was added twice
		return slices.Repeat([]bool{true}, len(msgs)), nil
	}
	set := make(map[outbox.Identity]bool, len(added))
	for _, id := range added {
		set[id] = true
	}
	isNew := make([]bool, len(msgs))
	for i := range msgs {
		id := outbox.IdentityOf(&msgs[i])
		isNew[i] = set[id]
		delete(set, id)
	}
	return isNew, nil
}
