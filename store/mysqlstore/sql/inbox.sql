-- name: gate
-- The inbox insert, which decides who handles a message: the primary key lets one transaction
-- insert, and a concurrent one waits here for its end.
INSERT INTO {inbox} (tenant, consumer, source, alias, message_key, message_id, type, payload_hash, extra_data, processed_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, {now})
{unless_there}

-- name: gate_dead
INSERT INTO {inbox} (tenant, consumer, source, alias, message_key, message_id, type, payload_hash, extra_data, processed_at, dead)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, {now}, 1)
{unless_there}

-- name: gate_all
-- The inbox insert for many records. They are locked in their order, each as an insert or as the
-- change of an existing row, so that no transaction needs a stronger lock later.
INSERT INTO {inbox} (tenant, consumer, source, alias, message_key, message_id, type, payload_hash, extra_data, processed_at)
VALUES {rows}
{unless_there}

-- name: gate_outcomes
-- Returns records with keys that differ only in the last part. New in the transaction that inserted
-- or changed them all is what was never repeated. Served by the primary key.
SELECT message_key, repeats = 0, dead, coalesce(payload_hash, '')
  FROM {inbox} FORCE INDEX (PRIMARY)
 WHERE tenant = $1 AND consumer = $2 AND source = $3 AND alias = $4 AND message_key IN ($5)

-- name: read_attempts
SELECT attempts, greatest(0, due_at - {now}) / 1000.0, starts, error FROM {consumer_attempts} WHERE {this_key}

-- name: save_attempt
-- Changes attempts last: what comes before sees the old number.
INSERT INTO {consumer_attempts} (tenant, consumer, source, alias, message_key, attempts, due_at, error, first_failed_at, updated_at, history)
VALUES ($1, $2, $3, $4, $5, $6, {now} + CAST($7 * 1000 AS SIGNED), $8, {now}, {now}, {with_attempt "'[]'" "$9" "$10" "$8"})
ON DUPLICATE KEY UPDATE
       due_at = {now} + CAST($7 * 1000 AS SIGNED), error = $8, updated_at = {now}, starts = 0,
       first_failed_at = CASE WHEN attempts = 0 THEN {now} ELSE first_failed_at END,
       history = CASE WHEN $6 > attempts THEN {with_attempt "coalesce(history, '[]')" "$9" "$10" "$8"} ELSE history END,
       attempts = $6

-- The counts of started attempts. They are written in a separate transaction, so that they stay if
-- the process ends within the attempt. A row without a failed attempt is due at once.

-- name: save_starts
INSERT INTO {consumer_attempts} (tenant, consumer, source, alias, message_key, starts, attempts, due_at, error, first_failed_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, 0, {now}, '', {now}, {now})
ON DUPLICATE KEY UPDATE starts = $6, updated_at = {now}
