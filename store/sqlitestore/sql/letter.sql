-- name: add_letter
WITH past AS (
    SELECT first_failed_at, history FROM {consumer_attempts}
     WHERE tenant = $11 AND consumer = $1 AND source = $12 AND alias = $2 AND message_key = $3
)
INSERT INTO {dead_letters} (origin, consumer, alias, message_key, reason, error, attempts, failed, fingerprint, history,
    first_failed_at, last_failed_at, enqueued_at, {message_fields})
SELECT 'consumer', $1, $2, $3, $4, $5, $6, $7, $8, {with_attempt "(SELECT history FROM past)" "$9" "$10" "$5"},
    coalesce((SELECT first_failed_at FROM past), {now}), {now}, {now}, {message_params 13}

-- name: pends_before
-- Finds what is in the outbox before a dead letter: it goes to the waiting rows only when a relay lets
-- it wait, so nothing can be queued behind it. Served by the primary key.
SELECT 1
  FROM {dead_letters} d
  JOIN {outbox} o ON o.position < d.position AND o.topic = $2 AND o.key = d.key
 WHERE d.number = $1 AND d.key <> ''
 LIMIT 1

-- A relay's dead letter keeps id, key and position and starts its next life in the waiting rows, where
-- it is due now unless it is behind something in its unit. So does the corrected copy of a message, in
-- the unit that it now belongs to. A message and its copy share one place: only one of them waits
-- there at once.

-- name: requeue_relay
INSERT INTO {outbox_waiting} (position, {message}, destination, life, letter, replay, history, due_at)
SELECT d.position, {message "d"}, d.destination, d.life + 1, d.number, $2, d.history,
       CASE WHEN {behind "d" "d.destination"} THEN NULL ELSE {now} END
  FROM {dead_letters} d
 WHERE d.number = $1
   AND NOT EXISTS (SELECT 1 FROM {outbox} o WHERE o.id = d.id AND o.source = d.source AND o.tenant = d.tenant)
   AND NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = d.id AND w.source = d.source AND w.tenant = d.tenant AND w.destination = d.destination)
ON CONFLICT DO NOTHING

-- name: copy_to_waiting
INSERT INTO {outbox_waiting} (position, destination, deliver_at, enqueued_at, life, due_at, {message_fields})
SELECT m.position, m.destination, m.deliver_at, m.enqueued_at, 1,
       CASE WHEN {behind "m" "m.destination"} THEN NULL ELSE {now} END, {message_params 2}
  FROM (SELECT position, destination, deliver_at, enqueued_at, $3 AS topic, $5 AS key FROM {dead_letters} WHERE number = $1) m
 WHERE true
ON CONFLICT DO NOTHING

-- The statements that run a requeued dead letter, in a transaction that has the write lock.

-- name: take_requeued
UPDATE {dead_letters} SET requeued_at = {now} + CAST($2 * 1000 AS INTEGER)
 WHERE number = (SELECT number FROM {dead_letters} WHERE consumer = $1 AND requeued_at <= {now} ORDER BY number LIMIT 1)
RETURNING number, alias, message_key, {message}

-- name: fail_requeued
-- Makes the message a dead letter again ($4), or lets it wait ($5 ms).
UPDATE {dead_letters}
   SET error = $2, reason = $3, last_failed_at = {now}, attempts = attempts + $4,
       requeued_at = CASE WHEN $4 THEN NULL ELSE {now} + CAST($5 * 1000 AS INTEGER) END, fingerprint = $6,
       history = CASE WHEN $4 THEN {with_attempt "history" "$7" "$8" "$2"} ELSE history END
 WHERE number = $1

-- name: release_record
-- Lets the record of a dead letter that is deleted expire.
UPDATE {inbox} SET dead = 0
 WHERE dead AND ({key_columns}) IN (
    SELECT {key_columns} FROM {dead_letters} WHERE number = $1 AND origin = 'consumer' AND message_key <> '')

-- fragment: with_attempt history node took error
-- A history with one more attempt; the second one makes room if it is full.
-- Times are microseconds since 1970.
json_insert(CASE WHEN json_array_length({.history}) >= {max_history} THEN json_remove({.history}, '$[1]') ELSE coalesce({.history}, '[]') END,
    '$[#]', json_object('at', {now}, 'node', {.node}, 'took', {.took}, 'error', {.error}))
