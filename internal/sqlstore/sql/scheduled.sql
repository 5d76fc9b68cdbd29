-- name: schedule_time
SELECT {now}

-- name: any_due
-- Run first: a poll that finds nothing needs no transaction, and so waits for no lock.
SELECT EXISTS (SELECT 1 FROM {scheduled} WHERE due_at <= {now})

-- The columns and values are what schedule_add_scheduled inserts: the arguments are those of a message
-- that is enqueued. Only a row that was added so has a token, which is unique. The database assigns
-- its position, a random negative one: those of the outbox are positive.

-- fragment: scheduled_columns
token, due_at, enqueued_at, id, topic, direct, {key}, type, source, tenant, subject, payload_bytes,
    content_type, data_schema, headers, correlation_id, causation_id, idempotency_key, trace_parent, trace_state, time, deliver_at, expires_at

-- fragment: scheduled_values
$1, $19, {now}, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20

-- The changes by token are compare-and-set: a relay takes the row away in the transaction that
-- moves it into the outbox.

-- name: schedule_cancel_scheduled
DELETE FROM {scheduled} WHERE token = $1

-- name: schedule_find_scheduled
SELECT {message} FROM {scheduled} WHERE token = $1

-- name: schedule_move_scheduled
-- Counts rows that it finds, changed or not.
UPDATE {scheduled} SET due_at = $2, deliver_at = $2 WHERE token = $1

-- name: schedule_messages
-- Reads along the index on due_at; what is due at one moment is sorted.
SELECT s.id, s.topic, CASE WHEN s.type = '' THEN s.topic ELSE s.type END, s.source, s.tenant, s.{key}, s.due_at, s.token IS NOT NULL, s.position
  FROM {scheduled} s
 WHERE s.due_at >= $1 AND (s.due_at > $1 OR s.position > $2)
 ORDER BY s.due_at, s.position LIMIT $3
