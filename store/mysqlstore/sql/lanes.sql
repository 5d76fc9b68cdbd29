-- name: lock_lanes
-- Makes renewals run one after the other.
SELECT 1 FROM {locks} WHERE name = 'lanes' FOR UPDATE

-- name: join
INSERT INTO {relays} (node, started_at, expires_at, lease_ms) VALUES ($1, {now}, {now} + CAST($2 * 1000 AS SIGNED), $2)
ON DUPLICATE KEY UPDATE node = node

-- name: renew
-- Changes no row if others have seen the lease expire.
UPDATE {relays} SET expires_at = {now} + CAST($2 * 1000 AS SIGNED), lease_ms = $2, renewals = renewals + 1 WHERE node = $1

-- name: give_lanes
UPDATE {relay_lanes} SET owner = NULL, since = NULL WHERE owner = $1 AND lane IN ($2)

-- fragment: share
ceil(count(*) / greatest(1, (SELECT count(*) FROM {relays})))

-- name: take_lanes
-- Takes free lanes up to the even share; the epoch rises.
UPDATE {relay_lanes} l
  JOIN (SELECT lane, row_number() OVER (ORDER BY lane) AS nth FROM {relay_lanes} WHERE owner IS NULL) f ON f.lane = l.lane
  JOIN (SELECT {share} - sum(CASE WHEN owner = $1 THEN 1 ELSE 0 END) AS room FROM {relay_lanes}) r ON f.nth <= r.room
   SET l.owner = $1, l.epoch = l.epoch + 1, l.since = {now}

-- name: own_lanes
-- Returns share and total with each lane, and once for a node without lanes.
SELECT l.lane, l.epoch, s.share, s.total
  FROM (SELECT {share} AS share, count(*) AS total FROM {relay_lanes}) s
  LEFT JOIN {relay_lanes} l ON l.owner = $1
 ORDER BY l.lane
