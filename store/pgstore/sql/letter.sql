-- name: plan_afresh
-- Keeps one plan from serving all arguments, until the transaction ends.
SET LOCAL plan_cache_mode = force_custom_plan

-- name: add_letter
WITH past AS (
    SELECT first_failed_at, history FROM {consumer_attempts}
     WHERE tenant = $11 AND consumer = $1 AND source = $12 AND alias = $2 AND message_key = $3
)
INSERT INTO {dead_letters} (origin, consumer, alias, message_key, reason, error, attempts, failed, fingerprint, history,
    first_failed_at, last_failed_at, enqueued_at, {message_fields})
SELECT 'consumer', $1, $2, $3, $4, $5, $6, $7, $8, {with_attempt}((SELECT history FROM past), $9, $10, $5),
    coalesce((SELECT first_failed_at FROM past), {clock}()), {clock}(), {clock}(), {message_params 13}

-- name: letter_waits
-- Run so rarely that the waiting rows need no index for it.
SELECT EXISTS (SELECT FROM {outbox_waiting} WHERE letter = $1)

-- name: hold_unit
-- Runs when the dead letter is locked, as settlements lock dead letters before the waiting rows.
SELECT w.position
  FROM {dead_letters} d CROSS JOIN LATERAL (
    SELECT e.position FROM {outbox_waiting} e
     WHERE e.topic = $2 AND e.key = d.key AND e.key <> '' AND NOT e.alone AND e.destination = d.destination AND e.position < d.position
     ORDER BY e.position LIMIT 1
       FOR SHARE) w
 WHERE d.number = $1

-- A relay's dead letter keeps id, key and position and starts its next life in the waiting rows, where
-- it is due now unless it is behind something in its unit. So does the corrected copy of a message, in
-- the unit that it now belongs to. A message and its copy share one place: only one of them waits
-- there at once.

-- name: requeue_relay
INSERT INTO {outbox_waiting} (lane, position, {message}, destination, life, letter, replay, history, due_at)
SELECT d.lane, d.position, {message "d"}, d.destination, d.life + 1, d.number, $2, d.history,
       CASE WHEN {behind "d" "d.destination"} THEN NULL ELSE {clock}() END
  FROM {dead_letters} d
 WHERE d.number = $1
   AND NOT EXISTS (SELECT 1 FROM {outbox} o WHERE o.id = d.id AND o.source = d.source AND o.tenant = d.tenant)
   AND NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = d.id AND w.source = d.source AND w.tenant = d.tenant AND w.destination = d.destination)
ON CONFLICT DO NOTHING

-- name: copy_to_waiting
INSERT INTO {outbox_waiting} (lane, position, destination, deliver_at, enqueued_at, life, due_at, {message_fields})
SELECT m.lane, m.position, m.destination, m.deliver_at, m.enqueued_at, 1,
       CASE WHEN {behind "m" "m.destination"} THEN NULL ELSE {clock}() END, {message_params 2}
  FROM (SELECT lane, position, destination, deliver_at, enqueued_at, $3::text AS topic, $5::text AS key
          FROM {dead_letters} WHERE number = $1) m
ON CONFLICT DO NOTHING

-- name: settle_letter
UPDATE {dead_letters} SET state = $2, resolution = $3, resolved_at = {clock}(), requeued_at = NULL, parks = false WHERE number = $1

-- name: audit
INSERT INTO {audit_log} (action, actor, why, letter, message_id, replay, detail) VALUES ($1, $2, $3, $4, $5, $6, $7)

-- The statements that run a requeued dead letter. A lease keeps other replicas away until the
-- handler's transaction holds the row's lock.

-- name: take_requeued
UPDATE {dead_letters} SET requeued_at = {clock}() + $2 * interval '1 millisecond'
 WHERE number = (SELECT number FROM {dead_letters}
                  WHERE consumer = $1 AND requeued_at <= {clock}()
                  ORDER BY number LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING number, alias, message_key, {message}

-- name: fail_requeued
-- Makes the message a dead letter again ($4), or lets it wait ($5 ms).
UPDATE {dead_letters}
   SET error = $2, reason = $3, last_failed_at = {clock}(), attempts = attempts + CASE WHEN $4 THEN 1 ELSE 0 END,
       requeued_at = CASE WHEN $4 THEN NULL ELSE {clock}() + $5 * interval '1 millisecond' END, fingerprint = $6,
       history = CASE WHEN $4 THEN {with_attempt}(history, $7, $8, $2) ELSE history END
 WHERE number = $1

-- name: release_record
-- Lets the record of a dead letter that is deleted expire.
WITH compact AS (
    UPDATE {inbox_compact} c SET dead = false FROM {dead_letters} d
     WHERE d.number = $1 AND d.origin = 'consumer' AND d.message_key <> '' AND c.dead
       AND c.key = {inbox_key}(d.tenant, d.consumer, d.source, d.alias, d.message_key)
)
UPDATE {inbox} i SET dead = false FROM {dead_letters} d
 WHERE d.number = $1 AND d.origin = 'consumer' AND d.message_key <> '' AND i.dead
   AND i.tenant = d.tenant AND i.consumer = d.consumer AND i.source = d.source AND i.alias = d.alias AND i.message_key = d.message_key

-- name: any_requeued
-- Not needed: take_requeued costs no more.
