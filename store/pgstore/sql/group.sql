-- name: list_groups
-- Adds the changes that are not folded in yet to the sums. It reads one row of
-- sums for each group, and for those that are returned their newest dead letter, on the index on
-- groups, and their last hours.
WITH groups AS (
    SELECT c.fingerprint, sum(c.open)::bigint AS open
      FROM (SELECT fingerprint, open FROM {dead_letter_sums} WHERE hour = 'epoch'
            UNION ALL
            SELECT fingerprint, open FROM {dead_letter_changes}) c
     GROUP BY c.fingerprint HAVING sum(c.open) > 0
     ORDER BY 2 DESC, 1 LIMIT $1
), arrivals AS (
    SELECT c.fingerprint, c.hour, sum(c.arrived) AS arrived
      FROM (SELECT fingerprint, hour, arrived FROM {dead_letter_sums} WHERE hour >= {clock}() - interval '24 hours'
            UNION ALL
            SELECT fingerprint, hour, arrived FROM {dead_letter_changes} WHERE hour >= {clock}() - interval '24 hours') c
     GROUP BY 1, 2
), hours AS (
    SELECT date_trunc('hour', {clock}(), 'UTC') - n * interval '1 hour' AS hour FROM generate_series(0, 23) n
), trends AS (
    SELECT g.fingerprint, json_agg(coalesce(a.arrived, 0) ORDER BY h.hour) AS trend
      FROM groups g CROSS JOIN hours h LEFT JOIN arrivals a ON a.fingerprint = g.fingerprint AND a.hour = h.hour
     GROUP BY g.fingerprint
)
SELECT g.fingerprint, d.origin, d.consumer, d.topic, CASE WHEN d.type = '' THEN d.topic ELSE d.type END, d.reason, d.error,
       d.number, d.last_failed_at, g.open, t.trend
  FROM groups g JOIN trends t USING (fingerprint)
 CROSS JOIN LATERAL (
    SELECT * FROM {dead_letters} d
     WHERE d.fingerprint = g.fingerprint AND d.state = 'open' AND d.requeued_at IS NULL
     ORDER BY d.number DESC LIMIT 1) d
 ORDER BY g.open DESC, g.fingerprint

-- name: fold_due
-- True if the number of unfolded changes makes reading slow, or dead letters have no fingerprint.
SELECT (SELECT count(*) FROM (SELECT FROM {dead_letter_changes} LIMIT 5001) c) > 5000
    OR EXISTS (SELECT FROM {dead_letters} WHERE fingerprint = '')

-- name: fold
-- Moves changes into the sums. A reader sees each in one place, because it is one
-- statement.
WITH gone AS (
    DELETE FROM {dead_letter_changes} RETURNING *
), sums AS (
    SELECT fingerprint, timestamptz 'epoch' AS hour, sum(open) AS open, 0 AS arrived FROM gone GROUP BY fingerprint
    UNION ALL
    SELECT fingerprint, hour, 0, sum(arrived) FROM gone WHERE arrived <> 0 GROUP BY fingerprint, hour
)
INSERT INTO {dead_letter_sums} AS s (fingerprint, hour, open, arrived)
SELECT fingerprint, hour, open, arrived FROM sums
ON CONFLICT (fingerprint, hour) DO UPDATE SET open = s.open + excluded.open, arrived = s.arrived + excluded.arrived

-- name: prune_sums
-- Removes hours that no trend shows any more, and groups without open dead letters.
DELETE FROM {dead_letter_sums}
 WHERE hour <> 'epoch' AND hour < {clock}() - interval '25 hours' OR hour = 'epoch' AND open = 0

-- name: set_fingerprints
UPDATE {dead_letters} d SET fingerprint = i.fingerprint
  FROM unnest($1::bigint[], $2::text[]) AS i(number, fingerprint)
 WHERE d.number = i.number AND d.fingerprint = ''

-- name: try_fold
{try_lock "fold"}
