-- A unit is what order is kept by: a destination, topic and key. What waits behind what is decided
-- by positions: a row of a unit waits behind the rows before it, except for those that wait alone,
-- and behind the dead letters before it that park the unit.

-- fragment: blocked
-- The condition under which a row o of the outbox must follow its key to the
-- waiting rows, whatever its destinations will be. Served by the partial indexes on units.
(o.key <> '' AND (
    EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.topic = o.topic AND w.key = o.key AND w.key <> '' AND NOT w.alone)
    OR EXISTS (SELECT 1 FROM {dead_letters} p WHERE p.topic = o.topic AND p.key = o.key AND p.parks)))

-- name: count_parked
-- Counts the units that dead letters park, and what waits behind them.
SELECT count(*), coalesce(sum((
    SELECT count(*) FROM {outbox_waiting} w
     WHERE w.topic = u.topic AND w.key = u.key AND w.key <> '' AND NOT w.alone AND w.destination = u.destination AND w.position > u.position)), 0)
  FROM (SELECT topic, key, destination, min(position) AS position FROM {dead_letters} WHERE parks GROUP BY topic, key, destination) u

-- fragment: behind row destination
-- The condition that a row is behind something in its unit. Served by the same indexes.
({.row}.key <> '' AND (
    EXISTS (SELECT 1 FROM {outbox_waiting} e
             WHERE e.topic = {.row}.topic AND e.key = {.row}.key AND e.key <> '' AND NOT e.alone AND e.destination = {.destination} AND e.position < {.row}.position)
    OR EXISTS (SELECT 1 FROM {dead_letters} p
             WHERE p.topic = {.row}.topic AND p.key = {.row}.key AND p.destination = {.destination} AND p.parks AND p.position < {.row}.position)))

-- fragment: promote_first k
-- Releases the first waiting row of the unit k if it is no longer behind anything.
UPDATE {outbox_waiting} AS w SET due_at = {now}
  FROM {.k}
 WHERE w.topic = k.topic AND w.key = k.key AND w.key <> '' AND NOT w.alone AND w.destination = k.destination AND w.due_at IS NULL
   AND w.position = (SELECT min(e.position) FROM {outbox_waiting} e
                      WHERE e.topic = k.topic AND e.key = k.key AND e.key <> '' AND NOT e.alone AND e.destination = k.destination)
   AND NOT EXISTS (SELECT 1 FROM {dead_letters} p
                    WHERE p.topic = k.topic AND p.key = k.key AND p.destination = k.destination AND p.parks AND p.position < w.position)

-- name: promote
{promote_first "(SELECT $1 AS topic, $2 AS key, $3 AS destination) k"}

-- name: release_unit
-- Does it for the unit of a dead letter that no longer parks it.
{promote_first unit_of_letter}

-- fragment: unit_of_letter
(SELECT topic, key, destination FROM {dead_letters} WHERE number = $1 AND origin = 'relay') k
