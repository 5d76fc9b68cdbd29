-- A unit is what order is kept by: a destination, topic and key. What waits behind what is decided
-- by positions: a row of a unit waits behind the rows before it, except for those that wait alone,
-- and behind the dead letters before it that park the unit.
--
-- The conditions below ask for the first row of a unit in the order of its index. As EXISTS, for
-- any row of it, the planner would read the whole table where the statistics say that most rows are
-- of one unit.

-- fragment: blocked
-- The condition under which messages of a topic and key, i, must follow their
-- key to the waiting rows, whatever their destinations will be. Served by the partial indexes on
-- the units of the waiting rows and of the dead letters that park theirs.
(
    (SELECT w.position FROM {outbox_waiting} w WHERE w.topic = i.topic AND w.key = i.key AND w.key <> '' AND NOT w.alone
      ORDER BY w.destination, w.position LIMIT 1) IS NOT NULL
    OR (SELECT p.number FROM {dead_letters} p WHERE p.topic = i.topic AND p.key = i.key AND p.parks
         ORDER BY p.destination, p.position LIMIT 1) IS NOT NULL)

-- fragment: unit_input
(SELECT DISTINCT * FROM unnest($1::text[], $2::text[], $3::text[]) AS k(topic, key, destination)) k

-- name: hold_letters
-- Locks the dead letters that park the given units until the transaction ends. One that is being
-- requeued or settled meanwhile is waited for: later statements see it gone, or its release of the
-- unit, which comes after, sees what they have left behind it. In the order of numbers, against
-- deadlocks with other relays. Served by the partial index on the units that dead letters park.
SELECT p.number FROM {unit_input}
  JOIN {dead_letters} p ON p.topic = k.topic AND p.key = k.key AND p.destination = k.destination AND p.parks
 ORDER BY p.number
   FOR SHARE OF p

-- name: promote
{promote_first unit_input}

-- name: release_unit
-- Does it for the unit of a dead letter that no longer parks it. It is a separate statement, so
-- that it sees what was queued behind the dead letter before that was locked.
{promote_first unit_of_letter}

-- name: count_parked
-- Counts the units that dead letters of the given lanes park, and what waits behind them. It reads
-- two partial indexes only: that of the dead letters as a whole, and of the waiting rows those of
-- the parked units.
SELECT count(*), coalesce(sum(b.behind), 0)::bigint
  FROM (SELECT p.topic, p.key, p.destination, min(p.position) AS position
          FROM {dead_letters} p WHERE p.parks AND p.lane = ANY ($1::int[])
         GROUP BY p.topic, p.key, p.destination) u
 CROSS JOIN LATERAL (
    SELECT count(*) AS behind FROM {outbox_waiting} w
     WHERE w.topic = u.topic AND w.key = u.key AND w.key <> '' AND NOT w.alone AND w.destination = u.destination AND w.position > u.position) b

-- fragment: unit_of_letter
(SELECT topic, key, destination FROM {dead_letters} WHERE number = $1 AND origin = 'relay') k

-- fragment: promote_first k
-- Releases the first waiting row of each unit of k if it is no longer behind anything.
UPDATE {outbox_waiting} w SET due_at = {clock}()
  FROM {.k}
 WHERE w.topic = k.topic AND w.key = k.key AND w.key <> '' AND NOT w.alone AND w.destination = k.destination AND w.due_at IS NULL
   AND w.position = (SELECT min(e.position) FROM {outbox_waiting} e
                      WHERE e.topic = k.topic AND e.key = k.key AND e.key <> '' AND NOT e.alone AND e.destination = k.destination)
   AND (SELECT p.number FROM {dead_letters} p
         WHERE p.topic = k.topic AND p.key = k.key AND p.destination = k.destination AND p.parks AND p.position < w.position
         ORDER BY p.position LIMIT 1) IS NULL

-- fragment: behind row destination
-- The condition that a row is behind something in its unit. Served by the same indexes.
({.row}.key <> '' AND (
    (SELECT e.position FROM {outbox_waiting} e
      WHERE e.topic = {.row}.topic AND e.key = {.row}.key AND e.key <> '' AND NOT e.alone AND e.destination = {.destination} AND e.position < {.row}.position
      ORDER BY e.position LIMIT 1) IS NOT NULL
    OR (SELECT p.number FROM {dead_letters} p
         WHERE p.topic = {.row}.topic AND p.key = {.row}.key AND p.destination = {.destination} AND p.parks AND p.position < {.row}.position
         ORDER BY p.position LIMIT 1) IS NOT NULL))
