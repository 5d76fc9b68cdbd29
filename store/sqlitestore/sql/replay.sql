-- name: replay_preview
-- Reads the dead letters once, in one statement.
WITH d AS (
    SELECT topic, key, first_failed_at, last_failed_at FROM {dead_letters} {where}
)
SELECT count(*), (SELECT count(*) FROM (SELECT DISTINCT topic, key FROM d WHERE key <> '') k),
       count(*) FILTER (WHERE $1 > 0 AND last_failed_at < {now} - CAST($1 * 1000 AS INTEGER)),
       min(first_failed_at)
  FROM d

-- name: replay_start
-- Counts, and finds the highest number, in one snapshot.
INSERT INTO {replays} (plan, started_by, why, letters, upto, started_at)
SELECT $1, $2, $3, count(*), coalesce(max(number), 0), {now} FROM {dead_letters} {where}
RETURNING number

-- name: replay_lock
-- The transaction has the write lock.
{replay_read}
