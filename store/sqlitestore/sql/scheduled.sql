-- name: due_scheduled
SELECT position FROM {scheduled} WHERE due_at <= {now} ORDER BY due_at, position LIMIT $1

-- name: release_one
-- Moves a message into the outbox, id kept, unless its identity is pending.
INSERT INTO {outbox} ({message})
SELECT {message "s"} FROM {scheduled} s
 WHERE s.position = $1 AND NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = s.id AND w.source = s.source AND w.tenant = s.tenant)
ON CONFLICT (id, source, tenant) DO NOTHING

-- name: schedule_add_scheduled
-- Gives the position itself: here a default cannot be random.
INSERT INTO {scheduled} (position, {scheduled_columns})
VALUES (-1 - abs(random() % 9007199254740992), {scheduled_values}) ON CONFLICT (token) DO NOTHING
