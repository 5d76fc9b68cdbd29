-- fragment: lease_columns
-- What sqlstore reads of a key.
key, lease_id, owner, token, attempts, processed, coalesce(coalesce(lease_until, due_at) > {now}, 0),
    coalesce(max(0, coalesce(lease_until, due_at) - {now}), 0) / 1000.0, first_seen, last_seen, lease_until, due_at, coalesce(payload_hash, '')

-- name: lease_begin
-- Returns nothing, and writes nothing, if the caller does not get the key. The
-- transaction has the write lock, so that the row is the same when it is read afterwards. Served,
-- as those below, by the primary key.
INSERT INTO {inbox_leases} AS l (key, lease_id, owner, token, attempts, max_attempts, payload_hash, first_seen, last_seen, lease_until)
VALUES ($1, $2, $3, 1, 1, $5, $6, {now}, {now}, {now} + CAST($4 * 1000 AS INTEGER))
ON CONFLICT DO UPDATE
   SET lease_id = excluded.lease_id, owner = excluded.owner, token = l.token + 1, attempts = l.attempts + 1,
       max_attempts = excluded.max_attempts, payload_hash = excluded.payload_hash, due_at = NULL, last_seen = excluded.last_seen, lease_until = excluded.lease_until
 WHERE NOT l.processed AND coalesce(coalesce(l.lease_until, l.due_at) <= excluded.last_seen, 1) AND ($5 = 0 OR l.attempts < $5)
RETURNING {lease_columns}

-- fragment: holds
-- The condition that $2 is the id of a lease that is neither released nor processed.
key = $1 AND lease_id = $2 AND lease_until IS NOT NULL

-- name: lease_settle
UPDATE {inbox_leases} SET processed = $3, attempts = attempts - $4, last_seen = {now}, lease_until = NULL,
    due_at = {now} + CAST(nullif($5, 0) * 1000 AS INTEGER)
 WHERE {holds}
RETURNING {lease_columns}

-- name: lease_renew
UPDATE {inbox_leases} SET last_seen = {now}, lease_until = {now} + CAST($3 * 1000 AS INTEGER)
 WHERE {holds}
RETURNING {lease_columns}

-- name: lease_read
SELECT {lease_columns} FROM {inbox_leases} WHERE key = $1
