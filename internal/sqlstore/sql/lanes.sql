-- name: relay_states
-- Names a lane's owner only while the relay is registered: the other lanes are free. It is for a
-- store that keeps booleans as numbers.
SELECT r.node, r.started_at, r.expires_at, r.expires_at > {now} AS alive, l.lane, l.since
  FROM {relays} r LEFT JOIN {relay_lanes} l ON l.owner = r.node
UNION ALL
SELECT '', NULL, NULL, 0, lane, since
  FROM {relay_lanes} WHERE owner IS NULL OR owner NOT IN (SELECT node FROM {relays})
 ORDER BY node, lane

-- name: renew
-- Changes no row if others have seen the lease expire.
UPDATE {relays} SET expires_at = {now} + {millis "$2"}, lease_ms = $2 WHERE node = $1

-- fragment: possible
-- The latest time at which a lease may end, as of now.
{now} + {millis "lease_ms"}

-- name: cut_leases
UPDATE {relays} SET expires_at = {possible} WHERE expires_at > {possible}

-- name: reap
DELETE FROM {relays} WHERE expires_at <= {now} AND node <> $1

-- name: free_lanes
UPDATE {relay_lanes} SET owner = NULL, since = NULL WHERE owner NOT IN (SELECT node FROM {relays})

-- name: leave_lanes
UPDATE {relay_lanes} SET owner = NULL, since = NULL WHERE owner = $1

-- name: leave
DELETE FROM {relays} WHERE node = $1
