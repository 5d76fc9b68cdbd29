-- The statements that read dead letters. A list has no payloads and histories: together they may be
-- more than fits into memory.

-- name: list_letters
{letters "NULL" listed_message}

-- name: show_letter
{letters "d.history" message} WHERE number = $1

-- fragment: letters history columns
-- Returns what scanLetter reads. It counts what waits behind a dead letter on the index on the units.
SELECT number, origin, consumer, destination, reason, error, fingerprint, state, attempts, life, failed, requeued_at IS NOT NULL, replay,
       first_failed_at, last_failed_at, resolved_at, resolution, parks,
       CASE WHEN d.parks THEN (SELECT count(*) FROM {outbox_waiting} w
            WHERE w.topic = d.topic AND w.{key} = d.{key} AND w.{key} <> '' AND NOT w.alone AND w.destination = d.destination AND w.position > d.position)
       ELSE 0 END, {.history}, {.columns}
  FROM {dead_letters} d

-- The statements about one dead letter that are the same in several stores. For settle_letter a store
-- has to keep booleans as numbers.

-- name: letter_waits
-- Run so rarely that the waiting rows need no index for it.
SELECT EXISTS (SELECT 1 FROM {outbox_waiting} WHERE letter = $1)

-- name: requeue_consumer
UPDATE {dead_letters} SET requeued_at = {now}, life = life + 1, replay = $2 WHERE number = $1

-- name: settle_letter
UPDATE {dead_letters} SET state = $2, resolution = $3, resolved_at = {now}, requeued_at = NULL, parks = 0 WHERE number = $1

-- name: restore_letter
UPDATE {dead_letters} SET state = 'open', resolution = '', resolved_at = NULL WHERE number = $1

-- name: any_requeued
-- Run first: a poll that finds nothing needs no transaction, and so waits for no lock.
SELECT EXISTS (SELECT 1 FROM {dead_letters} WHERE consumer = $1 AND requeued_at <= {now})

-- name: has_text
-- The condition that a dead letter has the text ? in one of its columns. This one serves databases that
-- keep texts as such.
(lower(error) LIKE lower(CAST(? AS text)) ESCAPE '!' OR lower(id) LIKE lower(CAST(? AS text)) ESCAPE '!'
   OR lower(key) LIKE lower(CAST(? AS text)) ESCAPE '!' OR lower(correlation_id) LIKE lower(CAST(? AS text)) ESCAPE '!')

-- A change to a dead letter locks it first, so that it is made once. It waits for a settlement that is
-- queuing messages behind the dead letter, and for a consumer that runs it.

-- name: lock_letter
SELECT origin, state, requeued_at IS NOT NULL, origin = 'consumer' AND message_key = '', topic, id
  FROM {dead_letters} WHERE number = $1 {for_update}

-- name: pends_before
-- Finds what is in the outbox before a dead letter: it goes to the waiting rows only when a relay lets
-- it wait, so nothing can be queued behind it. Served by the primary key.
SELECT 1
  FROM {dead_letters} d
  JOIN {outbox} o ON o.lane = d.lane AND o.position < d.position AND o.topic = $2 AND o.{key} = d.{key}
 WHERE d.number = $1 AND d.{key} <> ''
 LIMIT 1

-- name: hold_requeued
-- Waits for the row: a replica that looks for a dead letter locks, for a moment, those that it skips.
SELECT number FROM {dead_letters} WHERE number = $1 AND requeued_at IS NOT NULL {for_update}

-- name: remove_letter
DELETE FROM {dead_letters} WHERE number = $1

-- name: copy_letter
INSERT INTO {dead_letters} (origin, consumer, reason, error, attempts, failed, first_failed_at, last_failed_at, history, deliver_at, enqueued_at,
    alias, message_key, fingerprint, life, requeued_at, {message_fields})
SELECT d.origin, d.consumer, d.reason, d.error, d.attempts, d.failed, d.first_failed_at, d.last_failed_at, d.history, d.deliver_at, d.enqueued_at,
    $2, $3, $4, 1, {now}, {message_params 5}
  FROM {dead_letters} d WHERE d.number = $1
