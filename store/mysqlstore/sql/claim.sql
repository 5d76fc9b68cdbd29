-- fragment: owns_lane row lanes
-- The condition that a row is in a lane which still has the epoch that the caller knows: lanes are the
-- laneNames of the caller's. A sub-select of one value, because the planner could begin with a join.
(SELECT concat(r.lane, '/', r.epoch) FROM {relay_lanes} r WHERE r.lane = {.row}.lane) IN ({.lanes})

-- name: claim_due
-- Reads waiting messages that are due: the heads of their keys, and rows that wait alone. $2 are paused
-- destinations, $3 the positions that the caller has in flight, $5 single rows that it has in flight, $4 the
-- lanes. Safe with several relays because each reads only lanes that it owns; served by the index on due_at.
SELECT w.lane, w.position, w.destination, w.attempts, w.life, 0, NULL, (greatest(w.expires_at, 0) - {now}) / 1000.0, {message "w"}
  FROM {outbox_waiting} w
 WHERE due_at <= {now} AND {owns_lane "w" "$4"} AND (destination IN ($2)) IS NOT TRUE AND (position IN ($3)) IS NOT TRUE
   AND (concat(position, '/', destination) IN ($5)) IS NOT TRUE
 ORDER BY due_at, position
 LIMIT $1

-- name: claim_behind
-- Reads what is behind such heads, the leaders, in the order of its position, up to a row that waits for its own time: one that was
-- requeued may come before it. {leaders} are selects of one key each (leader). The rows are chosen before any
-- payload is read. It sums the rows that stop a key, because MariaDB would compute a maximum from the first row
-- again for each. Safe with several relays as claim_due is.
SELECT w.lane, w.position, w.destination, w.attempts, w.life, 0, NULL, (greatest(w.expires_at, 0) - {now}) / 1000.0, {message "w"}
  FROM (SELECT position, destination, free, sum(stops) OVER (PARTITION BY leader ORDER BY position ROWS UNBOUNDED PRECEDING) AS stopped FROM ({leaders}) l) f
  STRAIGHT_JOIN {outbox_waiting} w FORCE INDEX (PRIMARY) ON w.position = f.position AND w.destination = f.destination
 WHERE f.free AND f.stopped = 0 AND {owns_lane "w" "$4"} AND (w.position IN ($2)) IS NOT TRUE
   AND (concat(w.position, '/', w.destination) IN ($3)) IS NOT TRUE
 ORDER BY w.position
 LIMIT $1

-- name: leader
-- Reads the first $5 rows behind a leader, up to a dead letter that parks the rest; none if the leader is not
-- the first waiting row of its key: one before it may have been committed later, and wait longer. Served by the
-- index on the unit, of which it reads what it returns, and other heads of the key.
(SELECT {leader_position} AS leader, n.position, n.destination, n.due_at IS NULL AS free,
                           n.due_at IS NOT NULL AS stops
                      FROM {outbox_waiting} n FORCE INDEX (by_unit)
                     WHERE n.topic = {of_topic} AND n.{key} = {of_key} AND n.{key} <> '' AND NOT n.alone AND n.destination = {of_destination} AND n.position > {leader_position}
                       AND n.position < coalesce((SELECT min(p.position) FROM {dead_letters} p
                                                   WHERE p.parks = 1 AND p.topic = {of_topic} AND p.{key} = {of_key} AND p.destination = {of_destination}), 9223372036854775807)
                       AND {leader_position} = (SELECT e.position FROM {outbox_waiting} e FORCE INDEX (by_unit)
                                        WHERE e.topic = {of_topic} AND e.{key} = {of_key} AND e.{key} <> '' AND NOT e.alone AND e.destination = {of_destination}
                                        ORDER BY e.position LIMIT 1)
                       AND (n.due_at IS NULL OR n.attempts > 0 OR n.due_at > {now})
                     ORDER BY n.position LIMIT $5)

-- name: claim_ready
-- Reads what was never tried in the order of its position, of each lane from its lowest position on: a
-- transaction that commits late shows rows below those already read. So each claim walks over the messages in
-- flight ($2), and no row is skipped. {lanes} are selects of one lane each (lane); the rows are chosen before
-- any payload is read. Safe with several relays because each reads only lanes that it owns; served by the index
-- on (lane, position).
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
-- Reads the first $3 positions of a lane. Nothing is read if the lane's epoch has changed. Served by the index
-- alone.
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
