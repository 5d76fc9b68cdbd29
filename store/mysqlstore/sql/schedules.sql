-- name: schedule_add
{insert_schedule} {or_none}

-- name: schedule_hold
SELECT name FROM {schedules} WHERE name = $1 AND version = $2 FOR UPDATE SKIP LOCKED
