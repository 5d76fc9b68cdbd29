-- name: list_groups
-- Counts on the index on groups.
WITH RECURSIVE hours AS (
    SELECT 0 AS ago UNION ALL SELECT ago + 1 FROM hours WHERE ago < 23
), g AS (
    SELECT fingerprint, max(number) AS newest, count(*) AS open FROM {dead_letters}
     WHERE state = 'open' AND requeued_at IS NULL GROUP BY fingerprint
     ORDER BY open DESC, fingerprint LIMIT $1
)
SELECT g.fingerprint, d.origin, d.consumer, d.topic, CASE WHEN d.type = '' THEN d.topic ELSE d.type END, d.reason, d.error,
       d.number, d.last_failed_at, g.open, (
    SELECT concat('[', group_concat((
        SELECT count(*) FROM {dead_letters} a
         WHERE a.fingerprint = g.fingerprint AND {now} DIV 3600000000 - a.last_failed_at DIV 3600000000 = h.ago)
        ORDER BY h.ago DESC), ']') FROM hours h)
  FROM g JOIN {dead_letters} d ON d.number = g.newest
 ORDER BY g.open DESC, g.fingerprint

-- name: nameless
SELECT number, origin, CASE origin WHEN 'relay' THEN topic ELSE consumer END, CASE WHEN type = '' THEN topic ELSE type END, error
  FROM {dead_letters} WHERE fingerprint = '' ORDER BY number LIMIT 1000

-- name: set_fingerprints
UPDATE {listed} STRAIGHT_JOIN {dead_letters} d FORCE INDEX (PRIMARY) ON d.number = n.number
   SET d.fingerprint = ELT(FIELD(d.number, $1), $2)

-- name: try_fold
{try_lock "fold"}
