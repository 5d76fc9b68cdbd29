-- name: list_groups
-- Counts on the index on groups. Next to max, SQLite takes the other columns from the row that has
-- it.
SELECT g.fingerprint, d.origin, d.consumer, d.topic, CASE WHEN d.type = '' THEN d.topic ELSE d.type END, d.reason, d.error,
       d.number, d.last_failed_at, g.open, (
    WITH hours(ago) AS (VALUES (23) UNION ALL SELECT ago - 1 FROM hours WHERE ago > 0)
    SELECT json_group_array((
        SELECT count(*) FROM {dead_letters} a
         WHERE a.fingerprint = g.fingerprint AND {now} / 3600000000 - a.last_failed_at / 3600000000 = h.ago)) FROM hours h)
  FROM (SELECT fingerprint, max(number) AS newest, count(*) AS open FROM {dead_letters}
         WHERE state = 'open' AND requeued_at IS NULL GROUP BY fingerprint
         ORDER BY 3 DESC, 1 LIMIT $1) g
  JOIN {dead_letters} d ON d.number = g.newest
 ORDER BY g.open DESC, g.fingerprint

-- name: try_fold
SELECT 1

-- name: set_fingerprints
UPDATE {dead_letters}
   SET fingerprint = (SELECT f.value FROM json_each($1) n JOIN json_each($2) f ON f.key = n.key WHERE n.value = number)
 WHERE number IN (SELECT value FROM json_each($1))
