-- name: join
INSERT INTO {relays} (node, started_at, expires_at, lease_ms) VALUES ($1, {now}, {now} + CAST($2 * 1000 AS INTEGER), $2) ON CONFLICT DO NOTHING

-- name: give_lanes
UPDATE {relay_lanes} SET owner = NULL, since = NULL WHERE owner = $1 AND lane IN (SELECT value FROM json_each($2))

-- fragment: share
-- The even share of the lanes, of which there is one, so that it is 1.
(SELECT (count(*) + max(1, (SELECT count(*) FROM {relays})) - 1) / max(1, (SELECT count(*) FROM {relays})) FROM {relay_lanes})

-- name: take_lanes
-- Takes free lanes up to the even share; the epoch rises.
UPDATE {relay_lanes} SET owner = $1, epoch = epoch + 1, since = {now}
 WHERE lane IN (SELECT lane FROM {relay_lanes} WHERE owner IS NULL ORDER BY lane
                 LIMIT max(0, {share} - (SELECT count(*) FROM {relay_lanes} WHERE owner = $1)))

-- name: own_lanes
SELECT l.lane, l.epoch, s.share, s.total FROM (SELECT {share} AS share, (SELECT count(*) FROM {relay_lanes}) AS total) s LEFT JOIN {relay_lanes} l ON l.owner = $1 ORDER BY l.lane
