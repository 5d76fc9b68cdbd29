-- name: has_text
-- Looks for a text in the columns that people most often search by. What is kept as bytes has no upper
-- and lower case until it is made text.
(lower(error) LIKE lower(?) ESCAPE '!' OR lower(CONVERT(id USING utf8mb4)) LIKE lower(?) ESCAPE '!' OR lower(CONVERT({key} USING utf8mb4)) LIKE lower(?) ESCAPE '!' OR lower(CONVERT(correlation_id USING utf8mb4)) LIKE lower(?) ESCAPE '!')

-- name: add_letter
INSERT INTO {dead_letters} (origin, consumer, alias, message_key, reason, error, attempts, failed, fingerprint, history,
    first_failed_at, last_failed_at, enqueued_at, {message_fields})
SELECT 'consumer', $1, $2, $3, $4, $5, $6, $7, $8, {with_attempt "coalesce(past.history, '[]')" "$9" "$10" "$5"},
    coalesce(past.first_failed_at, {now}), {now}, {now}, {message_params 13}
  FROM (SELECT 1 AS one) always
  LEFT JOIN {consumer_attempts} past
    ON past.tenant = $11 AND past.consumer = $1 AND past.source = $12 AND past.alias = $2 AND past.message_key = $3

-- name: hold_unit
-- Runs when the dead letter is locked, as settlements lock dead letters before the waiting rows.
SELECT e.position
  FROM {dead_letters} d
  JOIN {outbox_waiting} e FORCE INDEX (by_unit) ON e.topic = $2 AND e.{key} = d.{key} AND e.{key} <> '' AND NOT e.alone AND e.destination = d.destination AND e.position < d.position
 WHERE d.number = $1
 ORDER BY e.position LIMIT 1
  LOCK IN SHARE MODE

-- A relay's dead letter keeps id, key and position and starts its next life in the waiting rows, where
-- it is due now unless it is behind something in its unit. So does the corrected copy of a message, in
-- the unit that it now belongs to. A message and its copy share one place: only one of them waits
-- there at once.

-- name: requeue_relay
INSERT INTO {outbox_waiting} (position, lane, {message}, destination, life, letter, replay, history, due_at)
SELECT d.position, d.lane, {message "d"}, d.destination, d.life + 1, d.number, $2, d.history,
       CASE WHEN {behind "d" "d.destination"} THEN NULL ELSE {now} END
  FROM {dead_letters} d
 WHERE d.number = $1
   AND NOT EXISTS (SELECT 1 FROM {outbox} o WHERE o.id = d.id AND o.source = d.source AND o.tenant = d.tenant)
   AND NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = d.id AND w.source = d.source AND w.tenant = d.tenant AND w.destination = d.destination) {or_none}

-- name: copy_to_waiting
INSERT INTO {outbox_waiting} (position, lane, destination, deliver_at, enqueued_at, life, due_at, {message_fields})
SELECT m.position, m.lane, m.destination, m.deliver_at, m.enqueued_at, 1,
       CASE WHEN {behind "m" "m.destination"} THEN NULL ELSE {now} END, {message_params 2}
  FROM (SELECT position, lane, destination, deliver_at, enqueued_at, $3 AS topic, $5 AS {key} FROM {dead_letters} WHERE number = $1) m {or_none}

-- The statements that run a requeued dead letter. A lease keeps other replicas away until the
-- handler's transaction holds the row's lock.

-- name: take_requeued
SELECT number, alias, message_key, {message} FROM {dead_letters}
 WHERE consumer = $1 AND requeued_at <= {now}
 ORDER BY number LIMIT 1
   FOR UPDATE SKIP LOCKED

-- name: lease_requeued
UPDATE {dead_letters} SET requeued_at = {now} + CAST($2 * 1000 AS SIGNED) WHERE number = $1

-- name: fail_requeued
-- Makes the message a dead letter again ($4), or lets it wait ($5 ms).
UPDATE {dead_letters}
   SET error = $2, reason = $3, last_failed_at = {now}, attempts = attempts + $4,
       requeued_at = CASE WHEN $4 THEN NULL ELSE {now} + CAST($5 * 1000 AS SIGNED) END, fingerprint = $6,
       history = CASE WHEN $4 THEN {with_attempt "coalesce(history, '[]')" "$7" "$8" "$2"} ELSE history END
 WHERE number = $1

-- name: release_record
-- Lets the record of a dead letter that is deleted expire.
UPDATE {dead_letters} d
  STRAIGHT_JOIN {inbox} i FORCE INDEX (PRIMARY)
        ON i.tenant = d.tenant AND i.consumer = d.consumer AND i.source = d.source AND i.alias = d.alias AND i.message_key = d.message_key
   SET i.dead = 0
 WHERE d.number = $1 AND d.origin = 'consumer' AND d.message_key <> '' AND i.dead

-- fragment: with_attempt history node took error
-- A history, a JSON array, with one more attempt; the second one makes room if
-- it is full. Times are microseconds since 1970.
JSON_ARRAY_APPEND(CASE WHEN JSON_LENGTH({.history}) >= {max_history} THEN JSON_REMOVE({.history}, '$[1]') ELSE {.history} END,
    '$', JSON_OBJECT('at', {now}, 'node', {.node}, 'took', {.took}, 'error', {.error}))
