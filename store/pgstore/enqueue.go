package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// enqueueSQL stores messages in the caller's transaction. The unique index on id makes a
// repeated id store nothing without aborting the transaction; the look into the waiting
// rows does the same for messages that have left the outbox for a while. Positions follow
// the order of the arrays.
const enqueueSQL = `
INSERT INTO {outbox} (id, topic, direct, key, type, source, tenant, subject, payload_bytes, content_type, data_schema,
    headers, correlation_id, causation_id, idempotency_key, trace_parent, trace_state, time, deliver_at, expires_at)
SELECT i.id, i.topic, i.direct, i.key, i.type, i.source, i.tenant, i.subject, i.payload_bytes, i.content_type, i.data_schema,
    i.headers::jsonb, i.correlation_id, i.causation_id, i.idempotency_key, i.trace_parent, i.trace_state, i.time, i.deliver_at, i.expires_at
FROM ` + enqueueInput + `
WHERE NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = i.id)
ORDER BY i.ord
ON CONFLICT (id) DO NOTHING
RETURNING id`

// enqueueUniqueSQL does the same for ids that must not come twice within the retention: the
// primary key of outbox_ids decides first.
const enqueueUniqueSQL = `
WITH added AS (
    INSERT INTO {outbox_ids} (id) SELECT DISTINCT unnest($1::text[]) ON CONFLICT (id) DO NOTHING RETURNING id
)
INSERT INTO {outbox} (id, topic, direct, key, type, source, tenant, subject, payload_bytes, content_type, data_schema,
    headers, correlation_id, causation_id, idempotency_key, trace_parent, trace_state, time, deliver_at, expires_at)
SELECT i.id, i.topic, i.direct, i.key, i.type, i.source, i.tenant, i.subject, i.payload_bytes, i.content_type, i.data_schema,
    i.headers::jsonb, i.correlation_id, i.causation_id, i.idempotency_key, i.trace_parent, i.trace_state, i.time, i.deliver_at, i.expires_at
FROM ` + enqueueInput + `
JOIN added USING (id)
WHERE NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = i.id)
ORDER BY i.ord
ON CONFLICT (id) DO NOTHING
RETURNING id`

const enqueueInput = `
    unnest($1::text[], $2::text[], $3::boolean[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bytea[],
           $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[],
           $18::timestamptz[], $19::timestamptz[], $20::timestamptz[])
    WITH ORDINALITY AS i(id, topic, direct, key, type, source, tenant, subject, payload_bytes, content_type, data_schema,
           headers, correlation_id, causation_id, idempotency_key, trace_parent, trace_state, time, deliver_at, expires_at, ord)`

// enqueue stores messages with one statement and one round trip.
func (s *Store[Tx]) enqueue(ctx context.Context, conn sqldb.Conn, msgs []waybill.Message, unique bool) ([]bool, error) {
	if len(msgs) == 0 {
		return nil, nil
	}
	stmt := s.sql.enqueue
	if unique {
		stmt = s.sql.enqueueUnique
	}
	rows, err := conn.Query(ctx, stmt, enqueueArgs(msgs)...)
	added, err := sqldb.Collect(rows, err, sqldb.Scan[string])
	if err != nil {
		return nil, fmt.Errorf("enqueue %d messages: %w", len(msgs), err)
	}
	return markNew(msgs, added), nil
}

// markNew reports for each message whether its id was added; of several messages with one
// id the first counts.
func markNew(msgs []waybill.Message, added []string) []bool {
	isNew := make([]bool, len(msgs))
	if len(msgs) == 1 {
		isNew[0] = len(added) == 1
		return isNew
	}
	set := make(map[string]bool, len(added))
	for _, id := range added {
		set[id] = true
	}
	for i := range msgs {
		isNew[i] = set[msgs[i].ID]
		delete(set, msgs[i].ID)
	}
	return isNew
}

func enqueueArgs(msgs []waybill.Message) []any {
	column := func(get func(m *waybill.Message) string) []string {
		list := make([]string, len(msgs))
		for i := range msgs {
			list[i] = get(&msgs[i])
		}
		return list
	}
	times := func(get func(m *waybill.Message) time.Time) []*time.Time {
		list := make([]*time.Time, len(msgs))
		for i := range msgs {
			list[i] = sqldb.Timestamp(get(&msgs[i]))
		}
		return list
	}
	direct, payloads, headers := make([]bool, len(msgs)), make([][]byte, len(msgs)), make([]*string, len(msgs))
	for i := range msgs {
		m := &msgs[i]
		direct[i] = m.To != ""
		headers[i] = sqldb.Headers(m)
		if payloads[i] = m.Payload; payloads[i] == nil {
			payloads[i] = []byte{}
		}
	}
	return []any{
		column(func(m *waybill.Message) string { return m.ID }),
		column((*waybill.Message).Address),
		direct,
		column(func(m *waybill.Message) string { return m.Key }),
		column(func(m *waybill.Message) string { return m.Type }),
		column(func(m *waybill.Message) string { return m.Source }),
		column(func(m *waybill.Message) string { return m.Tenant }),
		column(func(m *waybill.Message) string { return m.Subject }),
		payloads,
		column(func(m *waybill.Message) string { return m.ContentType }),
		column(func(m *waybill.Message) string { return m.DataSchema }),
		headers,
		column(func(m *waybill.Message) string { return m.CorrelationID }),
		column(func(m *waybill.Message) string { return m.CausationID }),
		column(func(m *waybill.Message) string { return m.IdempotencyKey }),
		column(func(m *waybill.Message) string { return m.TraceParent }),
		column(func(m *waybill.Message) string { return m.TraceState }),
		times(func(m *waybill.Message) time.Time { return m.Time }),
		times(func(m *waybill.Message) time.Time { return m.DeliverAt }),
		times(func(m *waybill.Message) time.Time { return m.ExpiresAt }),
	}
}
