-- A unit is what order is kept by: a destination, topic and key. What waits behind what is decided
-- by positions: a row of a unit waits behind the rows before it, except for those that wait alone,
-- and behind the dead letters before it that park the unit.

-- fragment: blocked
-- The condition under which a row o of the outbox must follow its key to the
-- waiting rows, whatever its destinations will be. Served by the indexes on units.
(o.{key} <> '' AND (
    EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.topic = o.topic AND w.{key} = o.{key} AND NOT w.alone)
    OR EXISTS (SELECT 1 FROM {dead_letters} p WHERE p.parks = 1 AND p.topic = o.topic AND p.{key} = o.{key})))

-- name: hold_letters
-- Locks the dead letters that park a unit until the transaction ends. One that is being requeued or
-- settled meanwhile is waited for: later statements see it gone, or its release of the unit, which
-- comes after, sees what they have left behind it.
SELECT number FROM {dead_letters} FORCE INDEX (by_unit)
 WHERE parks = 1 AND topic = $1 AND {key} = $2 AND destination = $3
 ORDER BY number
  LOCK IN SHARE MODE

-- name: count_parked
-- Counts the units that dead letters of the given lanes park, and what waits behind them.
SELECT count(*), coalesce(sum((
    SELECT count(*) FROM {outbox_waiting} w
     WHERE w.topic = u.topic AND w.{key} = u.{key} AND w.{key} <> '' AND NOT w.alone AND w.destination = u.destination AND w.position > u.position)), 0)
  FROM (SELECT topic, {key}, destination, min(position) AS position
          FROM {dead_letters} WHERE parks = 1 AND lane IN ($1) GROUP BY topic, {key}, destination) u

-- fragment: behind row destination
-- The condition that a row is behind something in its unit. Served by the same indexes.
({.row}.{key} <> '' AND (
    EXISTS (SELECT 1 FROM {outbox_waiting} e
             WHERE e.topic = {.row}.topic AND e.{key} = {.row}.{key} AND NOT e.alone AND e.destination = {.destination} AND e.position < {.row}.position)
    OR EXISTS (SELECT 1 FROM {dead_letters} p
             WHERE p.parks = 1 AND p.topic = {.row}.topic AND p.{key} = {.row}.{key} AND p.destination = {.destination} AND p.position < {.row}.position)))

-- fragment: promote_first rows
-- Releases the first waiting row of a unit if it is no longer behind anything. rows are the unit's
-- rows e; the LIMIT makes the server read them before it updates the table.
UPDATE (SELECT e.position, e.destination {.rows} ORDER BY e.position LIMIT 1) k
  STRAIGHT_JOIN {outbox_waiting} w FORCE INDEX (PRIMARY) ON w.position = k.position AND w.destination = k.destination
   SET w.due_at = {now}
 WHERE w.due_at IS NULL
   AND NOT EXISTS (SELECT 1 FROM {dead_letters} p
                    WHERE p.parks = 1 AND p.topic = w.topic AND p.{key} = w.{key} AND p.destination = w.destination AND p.position < w.position)

-- name: promote
{promote_first rows_of_unit}

-- fragment: rows_of_unit
FROM {outbox_waiting} e
         WHERE e.topic = $1 AND e.{key} = $2 AND e.{key} <> '' AND e.destination = $3 AND NOT e.alone

-- name: release_unit
-- Does it for the unit of a dead letter that no longer parks it.
{promote_first rows_behind_letter}

-- fragment: rows_behind_letter
FROM {dead_letters} d
          JOIN {outbox_waiting} e ON e.topic = d.topic AND e.{key} = d.{key} AND e.{key} <> '' AND e.destination = d.destination AND NOT e.alone
         WHERE d.number = $1 AND d.origin = 'relay'
