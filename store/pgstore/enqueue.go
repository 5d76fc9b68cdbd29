package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/pgname"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/outbox"
)

// enqueueShape is what the text of an enqueue depends on. An application has one shape for each way it fills in
// a message, and each is prepared once per connection.
type enqueueShape struct {
	fields                fieldSet
	many, fresh, remember bool
}

func (e enqueueShape) sql(s *statements) string {
	text := s.EnqueueOne
	value := func(n int, f *field) string { return fmt.Sprintf("$%d::%s%s", n, f.kind, f.cast) }
	switch {
	case e.remember:
		text = s.EnqueueUnique
	case e.fresh && e.many:
		text = s.EnqueueFresh
	case e.fresh:
		text = s.EnqueueFreshOne
	case e.many:
		text = s.EnqueueMany
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
		"{tenant}", cmp.Or(e.fields.one("tenant", value), pgname.QuoteText(waybill.DefaultTenant)+"::text"),
	).Replace(text)
}

// enqueueStatements keeps the texts of the shapes that were met.
type enqueueStatements struct {
	sql   *statements
	texts sync.Map // of string, by enqueueShape
}

func (e *enqueueStatements) text(shape enqueueShape) string {
	if text, ok := e.texts.Load(shape); ok {
		return text.(string)
	}
	text, _ := e.texts.LoadOrStore(shape, shape.sql(e.sql))
	return text.(string)
}

// statement returns what stores the messages of b, at least one. With told it returns the identities that it
// has stored; else the number of rows shows whether all of them, or the only one, are new.
func (e *enqueueStatements) statement(b outbox.Batch) (sql string, args []any, told bool) {
	shape := enqueueShape{
		fields: fieldsOf(b.Messages), many: len(b.Messages) > 1 || b.Remember,
		fresh: b.Fresh && !b.Remember, remember: b.Remember,
	}
	return e.text(shape), shape.fields.args(b.Messages, shape.many), shape.many && !shape.fresh
}

// enqueue stores messages with one statement and one round trip.
func (s *engine[Tx]) enqueue(ctx context.Context, conn sqldb.Conn, b outbox.Batch) (isNew []bool, err error) {
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

// allNew reports for each of msgs whether all of them are new: whether stored is their number.
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
