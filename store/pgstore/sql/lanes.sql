-- fragment: briefly
-- Makes the server end a transaction whose program has stalled: it would keep its locks, and others
-- could not renew their leases. It is part of the first statement of a relay's transaction, and
-- true.
set_config('idle_in_transaction_session_timeout', '2s', true) <> ''

-- name: stand_briefly
SELECT {briefly}

-- name: lock_lanes
-- Makes the renewals of one schema that change lanes run one after the other.
SELECT name FROM {locks} WHERE (SELECT {briefly}) AND name = 'lanes' FOR UPDATE

-- The statements of a renewal.

-- name: join
INSERT INTO {relays} (node, started_at, expires_at, lease_ms)
VALUES ($1, {clock}(), {clock}() + $2 * interval '1 millisecond', $2)
ON CONFLICT (node) DO NOTHING

-- name: give_lanes
UPDATE {relay_lanes} SET owner = NULL, since = NULL WHERE owner = $1 AND lane = ANY ($2::int[])

-- name: take_lanes
-- Takes free lanes up to the even share; the epoch rises.
UPDATE {relay_lanes} SET owner = $1, epoch = epoch + 1, since = {clock}()
 WHERE lane IN (SELECT lane FROM {relay_lanes} WHERE owner IS NULL ORDER BY lane
                 LIMIT greatest(0, (SELECT ceil(count(*)::numeric / greatest(1, (SELECT count(*) FROM {relays}))) FROM {relay_lanes})
                                 - (SELECT count(*) FROM {relay_lanes} WHERE owner = $1))::bigint)

-- fragment: share
ceil(count(*)::numeric / greatest(1, (SELECT count(*) FROM {relays})))::int

-- name: own_lanes
-- Returns share and total with each lane, and once for a node without lanes.
SELECT l.lane, l.epoch, s.share, s.total
  FROM (SELECT {share} AS share, count(*)::int AS total FROM {relay_lanes}) s
  LEFT JOIN {relay_lanes} l ON l.owner = $1
 ORDER BY l.lane

-- name: extend_lease
-- Renews and reads at once, and shows whether another relay's lease has expired or lanes are free
-- to be taken. It takes no lock but that of its own row, for which it waits while another relay
-- deletes it; then there is no row, and the lanes are lost. It may read lanes as they were before
-- it waited: while its row exists they are its own.
WITH renewed AS (
    UPDATE {relays} SET expires_at = {clock}() + $2 * interval '1 millisecond', lease_ms = $2 WHERE node = $1 RETURNING node
), s AS (
    SELECT {share} AS share, count(*)::int AS total, count(*) FILTER (WHERE owner = $1) AS own,
           coalesce(bool_or(owner IS NULL OR owner NOT IN (SELECT node FROM {relays})), false) AS free
      FROM {relay_lanes}
)
SELECT l.lane, l.epoch, s.share, s.total,
       s.free AND s.own < s.share OR EXISTS (SELECT FROM {relays} r WHERE r.node <> $1 AND (r.expires_at <= (SELECT {clock}()) OR r.expires_at > {possible}))
  FROM renewed CROSS JOIN s LEFT JOIN {relay_lanes} l ON l.owner = renewed.node
 ORDER BY l.lane
