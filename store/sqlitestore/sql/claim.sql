-- fragment: owns_lane epoch
-- The condition that the one lane still has the epoch.
(SELECT epoch FROM {relay_lanes} WHERE lane = 0) = {.epoch}

-- name: claim_waiting
-- Reads waiting messages that are due: the heads of their keys, and behind a head that has not failed since it
-- was released the rest of its key, in order, up to a dead letter that parks the rest, or a message that waits
-- for its own time: one that was requeued may come before it. Only the first waiting row of a key takes others
-- along. A head that has failed is tried alone. $3 are the positions that the caller has in flight, $4 single
-- rows that it has in flight, $5 the epoch of the lane. Served by the partial indexes on due_at and on the
-- unit.
--
-- What is behind several heads of one key, up to a dead letter that parks it, is what is behind the first of
-- them: that one is the leader, so that the rest of a key is read once and not by each head.
-- Of each key a claim reads the share that its limit has room for.
-- CROSS JOIN keeps the planner from reading the leaders for each row that waits.
WITH head AS (
    SELECT position, destination, topic, key, attempts, alone
      FROM {outbox_waiting}
     WHERE due_at <= {now} AND {owns_lane "$5"} AND destination NOT IN (SELECT value FROM json_each($2))
       AND position NOT IN (SELECT value FROM json_each($3)) AND position || '/' || destination NOT IN (SELECT value FROM json_each($4))
     ORDER BY due_at, position
     LIMIT $1
), leader AS (
    SELECT topic, key, destination, barrier, min(position) AS position
      FROM (
        SELECT position, topic, key, destination, coalesce((
                SELECT min(p.position) FROM {dead_letters} p
                 WHERE p.topic = head.topic AND p.key = head.key AND p.destination = head.destination AND p.parks), 9223372036854775807) AS barrier
          FROM head
         WHERE key <> '' AND attempts = 0 AND NOT alone)
     GROUP BY topic, key, destination, barrier
), due AS (
    SELECT position, destination FROM head
    UNION ALL
    SELECT position, destination
      FROM (
        SELECT f.position, f.destination, f.due_at, max(f.due_at IS NOT NULL AND (f.due_at > {now} OR f.attempts > 0))
                   OVER (PARTITION BY l.topic, l.key, l.destination, l.position ORDER BY f.position) AS behind
          FROM leader l
         CROSS JOIN {outbox_waiting} f ON f.topic = l.topic AND f.key = l.key AND f.key <> '' AND NOT f.alone AND f.destination = l.destination
               AND f.position > l.position
               AND f.position < min(l.barrier, coalesce((SELECT n.position FROM {outbox_waiting} n
                    WHERE n.topic = l.topic AND n.key = l.key AND n.key <> '' AND NOT n.alone AND n.destination = l.destination AND n.position > l.position
                    ORDER BY n.position LIMIT 1 OFFSET (SELECT max({least_of_key}, $1 / max(count(*), 1)) FROM leader)), 9223372036854775807))
         WHERE l.position = (SELECT min(e.position) FROM {outbox_waiting} e
                WHERE e.topic = l.topic AND e.key = l.key AND e.key <> '' AND NOT e.alone AND e.destination = l.destination))
     WHERE due_at IS NULL AND NOT behind AND position NOT IN (SELECT value FROM json_each($3))
       AND position || '/' || destination NOT IN (SELECT value FROM json_each($4))
)
SELECT 0, w.position, w.destination, w.attempts, w.life, 0, NULL, (w.expires_at - {now}) / 1000.0, {message "w"}
  FROM (SELECT position, destination FROM due ORDER BY position LIMIT $1)
  JOIN {outbox_waiting} w USING (position, destination)
 ORDER BY w.position

-- name: claim_ready
-- Reads what was never tried, from the lowest position on: there is only one writer, so no row appears below
-- one that is visible. $2 are the positions in flight, $3 is the epoch of the lane.
SELECT 0, o.position, '', 0, 0,
       {blocked},
       CASE WHEN o.deliver_at > {now} THEN (o.deliver_at - {now}) / 1000.0 END,
       (o.expires_at - {now}) / 1000.0, {message "o"}
  FROM {outbox} o
 WHERE o.position NOT IN (SELECT value FROM json_each($2)) AND {owns_lane "$3"}
 ORDER BY o.position
 LIMIT $1

-- name: claim_ahead
-- Reads what was never tried of other tenants than some ($4), between two positions ($1
-- and $2), but not what has an earlier row of its key that stays behind. $6 is the epoch of the lane. Served by
-- the primary key.
SELECT 0, o.position, '', 0, 0,
       {blocked},
       CASE WHEN o.deliver_at > {now} THEN (o.deliver_at - {now}) / 1000.0 END,
       (o.expires_at - {now}) / 1000.0, {message "o"}
  FROM {outbox} o
 WHERE o.position > $1 AND o.position <= $2 AND o.position NOT IN (SELECT value FROM json_each($3)) AND {owns_lane "$6"}
   AND o.tenant NOT IN (SELECT value FROM json_each($4))
   AND (o.key = '' OR NOT EXISTS (
        SELECT 1 FROM {outbox} e
         WHERE e.position < o.position AND e.topic = o.topic AND e.key = o.key
           AND (e.position <= $1 OR e.tenant IN (SELECT value FROM json_each($4))) AND e.position NOT IN (SELECT value FROM json_each($3))))
 ORDER BY o.position
 LIMIT $5
