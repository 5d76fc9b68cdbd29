-- name: replay_preview
-- Reads the dead letters without a lock.
WITH d AS (
    SELECT topic, {key}, first_failed_at, last_failed_at FROM {dead_letters} {where}
)
SELECT count(*), (SELECT count(*) FROM (SELECT DISTINCT topic, {key} FROM d WHERE {key} <> '') k),
       coalesce(sum($1 > 0 AND last_failed_at < {now} - CAST($1 * 1000 AS SIGNED)), 0),
       min(first_failed_at)
  FROM d

-- replay_start counts, and finds the highest number, in one snapshot.

-- name: replay_start
INSERT INTO {replays} (plan, started_by, why, letters, upto, started_at)
SELECT $1, $2, $3, count(*), coalesce(max(number), 0), {now} FROM {dead_letters} {where}

-- name: replay_started
SELECT LAST_INSERT_ID()

-- name: replay_lock
{replay_read} FOR UPDATE SKIP LOCKED
