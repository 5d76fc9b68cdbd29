-- name: schedule_add_scheduled
-- Leaves the caller's transaction usable where the token is taken.
INSERT INTO {scheduled} (lane, {scheduled_columns})
VALUES ({lane}($4::text, $1::text), $1::text, $19, {now}, $1::text, $2, $3, $4::text, $5, $6, $7, $8, $9, $10, $11, $12::text::jsonb,
        $13, $14, $15, $16, $17, $18, $19, $20)
ON CONFLICT (token) DO NOTHING

-- fragment: at_once
-- Part of a statement of a relay that may wait for a lock of the application's, which may last
-- indefinitely: what cannot be locked at once is left for later. It is true, and its setting applies
-- until the transaction ends.
set_config('lock_timeout', '100ms', true) <> ''

-- name: schedule_hold
SELECT name FROM {schedules} WHERE name = $1 AND version = $2 AND (SELECT {at_once}) FOR UPDATE SKIP LOCKED

-- name: any_due
-- Checks whether there is work for release_scheduled, which would wake the relays even if it released
-- nothing: a statement trigger runs for no rows, too. Served by the index on due_at, of which it
-- reads the first entry: an EXISTS would read every row to find that none is due.
SELECT coalesce((SELECT min(due_at) FROM {scheduled}) <= {clock}(), false)

-- name: release_scheduled
-- Moves due rows into the outbox, id kept. One whose identity is pending already, or is released by
-- this statement too, becomes a dead letter: it must neither block the others nor vanish. Several
-- relays share the work by skipping each other's rows.
--
-- The positions are an array, which the planner assumes to be short and looks up one by one: for an
-- IN with an unknown LIMIT it expects a tenth of all rows, and reads the whole table.
{release_those due_positions}

-- The statements for a batch that contains a row that the outbox refuses: its rows are released one
-- by one, and the one that is refused becomes a dead letter.

-- name: due_scheduled
SELECT position FROM {scheduled} WHERE due_at <= (SELECT {clock}()) ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED

-- name: release_one
{release_those "ARRAY[$1::bigint]"}

-- name: cancel_refuse
WITH s AS (DELETE FROM {scheduled} WHERE position = $1 RETURNING *)
INSERT INTO {dead_letters} (origin, lane, position, {message}, reason, error, attempts, first_failed_at, last_failed_at)
SELECT 'relay', {lane}(s.key, s.id), s.position, {movable "s"}, $2, $3, 0, {clock}(), {clock}() FROM s

-- name: postpone
-- Postpones the message that release_scheduled would move first.
UPDATE {scheduled} SET due_at = {clock}() + interval '5 seconds'
 WHERE position = (SELECT position FROM {scheduled} WHERE due_at <= (SELECT {clock}()) ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED)

-- fragment: due_positions
ARRAY(SELECT position FROM {scheduled} WHERE due_at <= (SELECT {clock}())
                                  ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED)

-- fragment: release_those positions
WITH gone AS (
    DELETE FROM {scheduled} WHERE position = ANY ({.positions}) AND (SELECT {at_once}) RETURNING *
), s AS (
    SELECT *, row_number() OVER (PARTITION BY id, source, tenant ORDER BY due_at, position) AS nth FROM gone
), added AS (
    INSERT INTO {outbox} ({message})
    SELECT {message "s"} FROM s
     WHERE s.nth = 1 AND NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = s.id AND w.source = s.source AND w.tenant = s.tenant)
     ORDER BY s.due_at, s.position
    ON CONFLICT (id, source, tenant) DO NOTHING
    RETURNING id, source, tenant
), left_over AS (
    SELECT * FROM s WHERE s.nth > 1 OR (s.id, s.source, s.tenant) NOT IN (SELECT id, source, tenant FROM added)
), refused AS (
    INSERT INTO {dead_letters} (origin, lane, position, {message}, reason, error, attempts, first_failed_at, last_failed_at)
    SELECT 'relay', {lane}(s.key, s.id), s.position, {movable "s"}, 'duplicate_id', 'a message with this id was on its way when this one was due', 0, {clock}(), {clock}()
      FROM left_over s
)
SELECT (SELECT count(*) FROM s), (SELECT count(*) FROM left_over)
