-- The inbox insert decides who handles a message. It is the first statement of its transaction,
-- which has the write lock: a concurrent one waits for the lock, and then sees the outcome.

-- name: gate
INSERT INTO {inbox} (tenant, consumer, source, alias, message_key, message_id, type, payload_hash, extra_data, processed_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, {now})
ON CONFLICT DO NOTHING

-- name: gate_dead
INSERT INTO {inbox} (tenant, consumer, source, alias, message_key, message_id, type, payload_hash, extra_data, processed_at, dead)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, {now}, 1)
ON CONFLICT DO NOTHING

-- name: read_attempts
SELECT attempts, max(0, due_at - {now}) / 1000.0, starts, error FROM {consumer_attempts} WHERE {this_key}

-- name: save_attempt
INSERT INTO {consumer_attempts} AS a (tenant, consumer, source, alias, message_key, attempts, due_at, error, first_failed_at, updated_at, history)
VALUES ($1, $2, $3, $4, $5, $6, {now} + CAST($7 * 1000 AS INTEGER), $8, {now}, {now}, {with_attempt "NULL" "$9" "$10" "$8"})
ON CONFLICT DO UPDATE
   SET attempts = excluded.attempts, due_at = excluded.due_at, error = excluded.error, updated_at = excluded.updated_at, starts = 0,
       first_failed_at = CASE WHEN a.attempts = 0 THEN excluded.first_failed_at ELSE a.first_failed_at END,
       history = CASE WHEN excluded.attempts > a.attempts THEN {with_attempt "a.history" "$9" "$10" "$8"} ELSE a.history END

-- The counts of started attempts. They are written in a separate transaction, so that they stay if
-- the process ends within the attempt. A row without a failed attempt is due at once.

-- name: save_starts
INSERT INTO {consumer_attempts} (tenant, consumer, source, alias, message_key, starts, attempts, due_at, error, first_failed_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, 0, {now}, '', {now}, {now})
ON CONFLICT DO UPDATE
   SET starts = excluded.starts, updated_at = excluded.updated_at
