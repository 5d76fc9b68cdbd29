-- fragment: owns_lane row lanes
-- The condition that a row is in a lane which still has the epoch that the caller knows: lanes are the
-- laneNames of the caller's. A sub-select of one value, because as a join the planner could begin with it.
(SELECT concat(r.lane, '/', r.epoch) FROM {relay_lanes} r WHERE r.lane = {.row}.lane) IN ({.lanes})

-- name: claim_waiting
-- Reads waiting messages that are due: the heads of their keys, and behind a
-- head that has not failed since it was let go the rest of its key, in order, up to a dead
-- letter that parks the rest, or a message that waits for its own time: one that was requeued may come before it.
-- Only the first that waits of a key takes others along: one before it may have been committed later, and wait longer.
-- A head that has failed is tried alone. $3 are the positions that the caller holds, $5 single rows that it holds,
-- $4 the lanes. Safe with several relays because each reads only lanes that it owns; served by the indexes on due_at
-- and on the unit.
--
-- What is behind several heads of one key, up to a letter that parks it, is what is behind the first of
-- them: that one is the leader, so that the rest of a key is read once and not by each head. Its reach, and
-- how much of that is free, are computed by themselves: MySQL would look for a bound again with each row that it
-- compares, and a window would store every row once more.
WITH head AS (
    SELECT position, destination, topic, {key}, attempts, alone
      FROM {outbox_waiting} w
     WHERE due_at <= {now} AND {owns_lane "w" "$4"} AND (destination IN ($2)) IS NOT TRUE AND (position IN ($3)) IS NOT TRUE
       AND (concat(position, '/', destination) IN ($5)) IS NOT TRUE
     ORDER BY due_at, position
     LIMIT $1
), leader AS (
    SELECT topic, {key}, destination, barrier, min(position) AS position
      FROM (
        SELECT position, topic, {key}, destination, coalesce((
                SELECT min(p.position) FROM {dead_letters} p
                 WHERE p.parks = 1 AND p.topic = head.topic AND p.{key} = head.{key} AND p.destination = head.destination), 9223372036854775807) AS barrier
          FROM head
         WHERE {key} <> '' AND attempts = 0 AND NOT alone) h
     GROUP BY topic, {key}, destination, barrier
), reach AS (
    SELECT topic, {key}, destination, position, least(barrier, coalesce((
            SELECT n.position FROM {outbox_waiting} n
             WHERE n.topic = leader.topic AND n.{key} = leader.{key} AND n.{key} <> '' AND NOT n.alone AND n.destination = leader.destination AND n.position > leader.position
             ORDER BY n.position LIMIT 1 OFFSET $1), 9223372036854775807)) AS bound
      FROM leader
     WHERE position = (SELECT min(e.position) FROM {outbox_waiting} e
                        WHERE e.topic = leader.topic AND e.{key} = leader.{key} AND e.{key} <> '' AND NOT e.alone AND e.destination = leader.destination)
), free AS (
    SELECT topic, {key}, destination, position, least(bound, coalesce((
            SELECT n.position FROM {outbox_waiting} n FORCE INDEX (by_unit)
             WHERE n.topic = reach.topic AND n.{key} = reach.{key} AND n.{key} <> '' AND NOT n.alone AND n.destination = reach.destination
               AND n.position > reach.position AND n.position < reach.bound AND n.due_at IS NOT NULL AND (n.attempts > 0 OR n.due_at > {now})
             ORDER BY n.position LIMIT 1), 9223372036854775807)) AS bound
      FROM reach
), due AS (
    SELECT position, destination FROM head
    UNION
    SELECT f.position, f.destination
      FROM free r
      STRAIGHT_JOIN {outbox_waiting} f FORCE INDEX (by_unit) ON f.topic = r.topic AND f.{key} = r.{key} AND f.{key} <> '' AND NOT f.alone AND f.destination = r.destination
           AND f.position > r.position AND f.position < r.bound
     WHERE f.due_at IS NULL AND (f.position IN ($3)) IS NOT TRUE AND (concat(f.position, '/', f.destination) IN ($5)) IS NOT TRUE
)
SELECT w.lane, w.position, w.destination, w.attempts, w.life, 0, NULL, (greatest(w.expires_at, 0) - {now}) / 1000.0, {message "w"}
  FROM due JOIN {outbox_waiting} w USING (position, destination)
 ORDER BY w.position
 LIMIT $1

-- name: claim_ready
-- Reads what was never tried in the order of its position, of each lane from its lowest position on: a
-- transaction that commits late shows rows below those already read. So each claim walks over
-- what is under way ($2), and no row is passed over. {lanes} are selects of one lane each
-- (lane); the rows are chosen before any payload is read. Safe with several relays because each reads only lanes that it owns;
-- served by the index on (lane, position).
SELECT o.lane, o.position, '', 0, 0,
       {blocked},
       CASE WHEN o.deliver_at > {now} THEN (o.deliver_at - {now}) / 1000.0 END,
       (greatest(o.expires_at, 0) - {now}) / 1000.0, {message "o"}
  FROM (SELECT l.position FROM ({lanes}) l
         WHERE (l.position IN ($2)) IS NOT TRUE
         ORDER BY l.position
         LIMIT $1) l
  JOIN {outbox} o ON o.position = l.position
 ORDER BY o.position

-- name: lane
-- Reads the first $3 positions of a lane. Nothing is read if the lane has another epoch by now. Served by
-- the index alone.
(SELECT position FROM {outbox}
                   WHERE lane = {lane_number} AND EXISTS (SELECT 1 FROM {relay_lanes} WHERE lane = {lane_number} AND epoch = {lane_epoch})
                   ORDER BY position LIMIT $3)

-- name: claim_ahead
-- Reads what was never tried of other tenants than some ($5), between two positions ($2
-- and $3), but not what has an earlier row of its key that stays behind: that is looked for from the
-- beginning of the lane, in the same snapshot. The rows are chosen before any payload is read. Served by
-- the primary key, and by the index on (lane, position).
SELECT o.lane, o.position, '', 0, 0,
       {blocked},
       CASE WHEN o.deliver_at > {now} THEN (o.deliver_at - {now}) / 1000.0 END,
       (greatest(o.expires_at, 0) - {now}) / 1000.0, {message "o"}
  FROM (SELECT l.position
          FROM {outbox} l
         WHERE l.position > $2 AND l.position <= $3 AND {owns_lane "l" "$1"} AND l.tenant NOT IN ($5) AND (l.position IN ($4)) IS NOT TRUE
           AND (l.{key} = '' OR NOT EXISTS (
                SELECT 1 FROM {outbox} e
                 WHERE e.lane = l.lane AND e.position < l.position AND e.topic = l.topic AND e.{key} = l.{key}
                   AND (e.position <= $2 OR e.tenant IN ($5)) AND (e.position IN ($4)) IS NOT TRUE))
         ORDER BY l.position
         LIMIT $6) l
  JOIN {outbox} o ON o.position = l.position
 ORDER BY o.position
