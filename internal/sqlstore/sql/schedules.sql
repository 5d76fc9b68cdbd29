-- fragment: schedule_columns
s.name, s.version, s.plan, s.paused, s.next_at, s.last_at, s.last_id, s.executions, s.skipped

-- name: schedule_add
{insert_schedule} ON CONFLICT (name) DO NOTHING

-- fragment: insert_schedule
-- Stores a new schedule; each store adds what happens if there is one already.
INSERT INTO {schedules} (name, plan, paused, next_at, last_at, last_id, executions, skipped, version)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)

-- name: schedule_update
-- Compare-and-set: of several runners that have read one version the
-- first changes it.
UPDATE {schedules} SET plan = $2, paused = $3, next_at = $4, last_at = $5, last_id = $6, executions = $7, skipped = $8, version = version + 1
 WHERE name = $1 AND version = $9

-- name: schedule_remove
DELETE FROM {schedules} WHERE name = $1

-- name: schedule_read
SELECT {schedule_columns} FROM {schedules} s WHERE s.name = $1

-- name: schedule_list
SELECT {schedule_columns} FROM {schedules} s WHERE s.name > $1 ORDER BY s.name LIMIT $2

-- name: schedule_due
-- Reads along the index on next_at and name, and looks for each message by the indexes that begin
-- with its id. schedule_busy finds out whose message with the id it is.
SELECT {schedule_columns},
       EXISTS (SELECT 1 FROM {outbox} o WHERE o.id = s.last_id) OR EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = s.last_id)
  FROM {schedules} s
 WHERE s.next_at <= (SELECT {now}) AND s.next_at >= $1 AND (s.next_at > $1 OR s.name > $2)
 ORDER BY s.next_at, s.name LIMIT $3

-- name: schedule_busy
SELECT EXISTS (SELECT 1 FROM {outbox} o WHERE o.id = $1 AND o.source = $2 AND o.tenant = $3)
    OR EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = $1 AND w.source = $2 AND w.tenant = $3)

-- name: schedule_next
SELECT {now}, (SELECT min(s.next_at) FROM {schedules} s WHERE s.next_at > (SELECT {now}))

-- name: schedule_stats
-- Reads the schedules as a whole, and by the index on due_at the messages
-- that are due.
SELECT {now},
       (SELECT COUNT(*) FROM {schedules} s WHERE s.next_at IS NOT NULL),
       (SELECT COUNT(*) FROM {schedules} s WHERE s.paused),
       (SELECT COUNT(*) FROM {schedules} s WHERE s.next_at IS NULL AND NOT s.paused),
       (SELECT COUNT(*) FROM {schedules} s WHERE s.next_at <= (SELECT {now})),
       (SELECT MIN(s.next_at) FROM {schedules} s WHERE s.next_at <= (SELECT {now})),
       (SELECT COUNT(*) FROM {scheduled} m WHERE m.due_at <= (SELECT {now})),
       (SELECT MIN(m.due_at) FROM {scheduled} m WHERE m.due_at <= (SELECT {now}))
