-- fragment: message_filter
($2 = '' OR topic = $2) AND ($3 = '' OR tenant = $3) AND ($4 = '' OR key = $4)
   AND ($5 = '' OR correlation_id = $5) AND ($6 = 0::float8 OR enqueued_at <= {clock}() - $6 * interval '1 millisecond') AND {message_text}

-- name: published_messages
-- Goes back on the archive's primary key.
SELECT id, 'Published', topic, destination, type, source, tenant, key, attempts, '', enqueued_at, NULL::timestamptz, published_at
  FROM {outbox_archive}
 WHERE $1::text <> '' AND {message_filter}
 ORDER BY published_at DESC LIMIT $7

-- name: relay_states
-- Names a lane's owner only while the relay is registered: the other lanes are free.
SELECT * FROM (
SELECT r.node COLLATE "C" AS node, r.started_at, r.expires_at, r.expires_at > {clock}() AS alive, l.lane, l.since
  FROM {relays} r LEFT JOIN {relay_lanes} l ON l.owner = r.node
UNION ALL
SELECT '', NULL, NULL, false, lane, since
  FROM {relay_lanes} WHERE owner IS NULL OR owner NOT IN (SELECT node FROM {relays})
) s ORDER BY node, lane

-- fragment: oldest
-- The age of the oldest, in seconds.
extract(epoch FROM {clock}() - min(since))::float8
