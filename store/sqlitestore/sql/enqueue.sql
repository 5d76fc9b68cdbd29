-- name: enqueue
-- Stores one message in the caller's transaction. A repeated one stores nothing
-- and leaves the transaction usable: the unique index finds it in the outbox, the look into
-- the waiting rows there, and, if $21 is set, outbox_ids remembers it, or only its id, without a
-- tenant, from an earlier version. No other transaction writes between this statement and the next,
-- so none of the lookups can be outdated.
INSERT INTO {outbox} (id, topic, direct, key, type, source, tenant, subject, payload_bytes, content_type, data_schema,
    headers, correlation_id, causation_id, idempotency_key, trace_parent, trace_state, time, deliver_at, expires_at, enqueued_at)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, {now}
 WHERE NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = $1 AND w.source = $6 AND w.tenant = $7)
   AND NOT ($21 AND EXISTS (SELECT 1 FROM {outbox_ids} u WHERE u.id = $1 AND (u.source = $6 AND u.tenant = $7 OR u.source = '' AND u.tenant = '')))
ON CONFLICT (id, source, tenant) DO NOTHING

-- name: add_unique
INSERT INTO {outbox_ids} (id, source, tenant, enqueued_at) VALUES ($1, $2, $3, {now}) ON CONFLICT DO NOTHING
