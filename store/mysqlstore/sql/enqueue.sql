-- An enqueue takes two statements in the caller's transaction: one looks for messages that are in
-- flight, one stores the other messages. Existing rows are not locked, because that would hold up
-- the relay that settles them. Only two that enqueue one id at the same time meet at the unique
-- index: the second one waits for the first, and then stores its messages by halves, until it has
-- found those that are not new. So it needs no right to change a row, which ON DUPLICATE KEY UPDATE
-- would need for all columns, and locks no gap next to an id, and so the ids of others.

-- name: known
-- Returns which messages with ids of $1 are in flight, and, if $2 is set, which ids are remembered.
-- For one that was recorded without a tenant, by an earlier version, nothing else is known.
SELECT id, source, tenant, 0 FROM {outbox} WHERE id IN ($1)
UNION ALL SELECT id, source, tenant, 0 FROM {outbox_waiting} WHERE id IN ($1)
UNION ALL SELECT id, source, tenant, 1 FROM {outbox_ids} WHERE $2 AND id IN ($1)

-- name: enqueue
-- Stores messages; {rows} are their values. Positions follow their order.
INSERT INTO {outbox} (id, topic, direct, {key}, type, source, tenant, subject, payload_bytes, content_type, data_schema,
    headers, correlation_id, causation_id, idempotency_key, trace_parent, trace_state, time, deliver_at, expires_at, enqueued_at)
VALUES {rows}

-- name: add_unique
-- The ids that must not come twice within the retention are stored first, and decide.
INSERT INTO {outbox_ids} (id, source, tenant, enqueued_at) VALUES {rows}

-- name: row
-- A row of values, which ends with the time.
({values}, {now})
