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

// wakeRelays notifies relays that sleep when the transaction commits, as the trigger complete_message does for rows of other
// programs. It is evaluated when the row has its position.
const wakeRelays = `CASE WHEN pg_sequence_last_value({wakeups_text}::regclass) > date_part('epoch', clock_timestamp())
               AND current_setting('waybill.notify', true) IS DISTINCT FROM 'off' THEN pg_notify('{channel}', '') END`

// The statements for messages whose ids were made for them. Nobody can have one of them, so nothing is looked for.
// Positions follow the order of the arrays.
const (
	enqueueFreshOneSQL = `
INSERT INTO {outbox} ({columns}) VALUES ({values}) RETURNING ` + wakeRelays

	enqueueFreshSQL = `
INSERT INTO {outbox} ({columns})
SELECT {values} FROM unnest({arrays}) WITH ORDINALITY AS i({columns}, ord) ORDER BY i.ord
RETURNING ` + wakeRelays
)

// enqueueOneSQL stores one message in the caller's transaction. The unique index on what messages
// are known by makes a repeated one store nothing without aborting the transaction; the look into
// the waiting rows, by their unique index, does the same for a message that has left the outbox for
// a while. The number of rows tells whether it is new.
const enqueueOneSQL = `
INSERT INTO {outbox} ({columns})
SELECT {values}
WHERE NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = {id} AND w.source = {source} AND w.tenant = {tenant})
ON CONFLICT (id, source, tenant) DO NOTHING
RETURNING ` + wakeRelays

// enqueueManySQL does the same for several.
const enqueueManySQL = `
INSERT INTO {outbox} ({columns})
SELECT {values}
FROM unnest({arrays}) WITH ORDINALITY AS i({columns}, ord)
WHERE NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = {id} AND w.source = {source} AND w.tenant = {tenant})
ORDER BY i.ord
ON CONFLICT (id, source, tenant) DO NOTHING
RETURNING id, source, tenant, ` + wakeRelays

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
RETURNING id, source, tenant, ` + wakeRelays

// enqueueShape is what the text of an enqueue depends on. An application has as many shapes
// as it has ways to fill in a message, and each is prepared once per connection.
type enqueueShape struct {
	fields                fieldSet
	many, fresh, remember bool
}

func (e enqueueShape) sql() string {
	text := enqueueOneSQL
	value := func(n int, f *field) string { return fmt.Sprintf("$%d::%s%s", n, f.kind, f.cast) }
	switch {
	case e.remember:
		text = enqueueUniqueSQL
	case e.fresh && e.many:
		text = enqueueFreshSQL
	case e.fresh:
		text = enqueueFreshOneSQL
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

// statement returns what stores the messages of b, at least one. With told it returns the identities that it has
// stored; else the number of rows says whether all of them are new, or the only one.
func (e *enqueueStatements) statement(b outbox.Batch) (sql string, args []any, told bool) {
	shape := enqueueShape{
		fields: fieldsOf(b.Messages), many: len(b.Messages) > 1 || b.Remember,
		fresh: b.Fresh && !b.Remember, remember: b.Remember,
	}
	return e.text(shape), shape.fields.args(b.Messages, shape.many), shape.many && !shape.fresh
}

// enqueue stores messages with one statement and one round trip.
func (s *Store[Tx]) enqueue(ctx context.Context, conn sqldb.Conn, b outbox.Batch) (isNew []bool, err error) {
	if len(b.Messages) == 0 {
		return nil, nil
	}
	sql, args, told := s.enqueues.statement(b)
	if told {
		rows, queryErr := conn.Query(ctx, sql, args...)
		isNew, err = readNew(b.Messages, rows, queryErr)
	} else {
		var n int64
		n, err = conn.Exec(ctx, sql, args...)
		isNew = allNew(b.Messages, n)
	}
	if err != nil {
		return nil, fmt.Errorf("enqueue %d messages: %w", len(b.Messages), err)
	}
	return isNew, nil
}

// allNew reports that all of msgs are new, if so many rows were stored.
func allNew(msgs []waybill.Message, stored int64) []bool {
	return slices.Repeat([]bool{stored == int64(len(msgs))}, len(msgs))
}

// readNew reports for each message whether its identity is among rows; of several messages with
// one identity the first counts.
func readNew(msgs []waybill.Message, rows sqldb.Rows, err error) ([]bool, error) {
	added, err := sqldb.Collect(rows, err, func(r sqldb.Rows) (id outbox.Identity, err error) {
		err = r.Scan(&id.ID, &id.Source, &id.Tenant, new(any))
		return id, err
	})
	if err != nil {
		return nil, err
	}
	if len(added) == len(msgs) { // none was added twice
		return allNew(msgs, int64(len(added))), nil
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
