-- name: replay_preview
-- Reads the dead letters once, without a lock.
WITH d AS MATERIALIZED (
    SELECT topic, key, first_failed_at, last_failed_at FROM {dead_letters} {where}
)
SELECT count(*), (SELECT count(*) FROM (SELECT DISTINCT topic, key FROM d WHERE key <> '') k),
       count(*) FILTER (WHERE $1::float8 > 0 AND last_failed_at < (SELECT {clock}()) - $1::float8 * interval '1 millisecond'),
       min(first_failed_at)
  FROM d

-- name: replay_start
-- Counts, and finds the highest number, in one snapshot.
INSERT INTO {replays} (plan, started_by, why, letters, upto)
SELECT $1::text, $2::text, $3::text, count(*), coalesce(max(number), 0) FROM {dead_letters} {where}
RETURNING number

-- name: replay_lock
{replay_read} FOR UPDATE OF r SKIP LOCKED
