-- name: due_scheduled
-- Lets several relays share the work by skipping each other's rows.
SELECT position, id, source, tenant, {message} FROM {scheduled}
 WHERE due_at <= {now} ORDER BY due_at, position LIMIT $1
   FOR UPDATE SKIP LOCKED

-- name: release_one
-- Moves a message into the outbox, id kept. It takes the values themselves: an INSERT that selects
-- them would take the lock of the table's next position, for which enqueues would wait.
INSERT INTO {outbox} ({message}) VALUES ({values})

-- name: postpone
-- Postpones the message that would be moved first.
UPDATE {scheduled} SET due_at = {now} + 5000000 WHERE due_at <= {now} ORDER BY due_at, position LIMIT 1

-- name: cancel_refuse
-- The common one with the lane, which the dead letter needs to be requeued and which the outbox
-- would have computed in the same way.
INSERT INTO {dead_letters} (origin, position, lane, {message}, reason, error, attempts, first_failed_at, last_failed_at)
SELECT 'relay', s.position, ASCII(UNHEX(SHA2(CASE WHEN s.{key} = '' THEN s.id ELSE s.{key} END, 256))) & 63, {message "s"},
       $2, $3, 0, {now}, {now}
  FROM {scheduled} s WHERE s.position = $1

-- name: schedule_move_scheduled
-- Changes the row in any case, because rows that stay as they are do not count.
UPDATE {scheduled} SET due_at = $2, deliver_at = $2, repeats = repeats + 1 WHERE token = $1

-- name: schedule_add_scheduled
INSERT INTO {scheduled} ({scheduled_columns}) VALUES ({scheduled_values}) {or_none}
