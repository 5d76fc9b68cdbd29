-- name: cancel_find
-- Served by the indexes on the identity, but for the scheduled messages, of which it
-- reads all.
SELECT 'Pending', o.position, {lane_of "o"}, '', o.topic, o.{key}, o.type, 0, CASE WHEN o.deliver_at > {now} THEN 0 ELSE 1 END
  FROM {outbox} o WHERE o.id = $1 AND o.source = $2 AND o.tenant = $3
UNION ALL
SELECT 'Waiting', w.position, {lane_of "w"}, w.destination, w.topic, w.{key}, w.type, w.attempts, CASE WHEN w.due_at > {now} THEN 0 ELSE 1 END
  FROM {outbox_waiting} w WHERE w.id = $1 AND w.source = $2 AND w.tenant = $3
UNION ALL
SELECT 'Scheduled', s.position, 0, '', s.topic, s.{key}, s.type, 0, 0
  FROM {scheduled} s WHERE s.id = $1 AND s.source = $2 AND s.tenant = $3

-- fragment: lane_of row
-- The lane of a row of the outbox, or of the waiting ones.
{.row}.lane

-- fragment: for_update
-- Keeps the rows of a SELECT until the transaction ends.
FOR UPDATE

-- name: cancel_lock_lane
-- Locks the lane of a message exclusively; its settlements take a shared lock.
SELECT CASE WHEN owner IS NULL THEN 0 ELSE 1 END FROM {relay_lanes} WHERE lane = $1 {for_update}

-- name: cancel_lock_scheduled
SELECT position FROM {scheduled} WHERE position = $1 {for_update}

-- name: cancel_refuse
-- Makes a scheduled message that the outbox does not take a dead letter, with a
-- reason and an error: it must neither block the others nor vanish. It is for a store without
-- lanes.
INSERT INTO {dead_letters} (origin, position, {message}, reason, error, attempts, first_failed_at, last_failed_at)
SELECT 'relay', s.position, {message "s"}, $2, $3, 0, {now}, {now}
  FROM {scheduled} s WHERE s.position = $1

-- name: cancel_remove
DELETE FROM {scheduled} WHERE position = $1

-- name: cancel_letter
SELECT number FROM {dead_letters}
 WHERE id = $1 AND position = $2 AND destination = $3 AND origin = 'relay' AND reason = 'cancelled' AND state = 'open'
