-- fragment: lease_columns now
-- What sqlstore reads of a key; it cannot be begun if its lease, or its wait, ends after now.
key, lease_id, owner, token, attempts, processed, coalesce(coalesce(lease_until, due_at) > {.now}, false),
       coalesce(greatest(0, extract(epoch FROM coalesce(lease_until, due_at) - {clock}())) * 1000, 0)::float8,
       first_seen, last_seen, lease_until, due_at, coalesce(payload_hash, '')

-- fragment: set_if condition column value
-- An assignment to a column of the row l: it gets the value if the condition
-- holds, and stays as it is otherwise.
{.column} = CASE WHEN {.condition} THEN {.value} ELSE l.{.column} END

-- fragment: the_time
(SELECT {clock}())

-- fragment: seen_now
greatest(l.last_seen, {the_time})

-- fragment: waits_until
{the_time} + nullif($5::float8, 0) * interval '1 millisecond'

-- fragment: may_begin
-- The condition under which a request, the row excluded, gets the key of row l.
-- excluded.last_seen is the time of the statement, so that it is one time in all columns; a
-- transaction that was waited for may have written a later one.
(NOT l.processed AND coalesce(coalesce(l.lease_until, l.due_at) <= excluded.last_seen, true)
        AND (excluded.max_attempts = 0 OR l.attempts < excluded.max_attempts))

-- name: lease_begin
{begin_leases asked_one}

-- name: lease_begin_all
{begin_leases asked_all}

-- What a request, or several, ask for. The plan for one is cached: for an array the server plans
-- each time, to look at its length.

-- fragment: asked_one
(VALUES ($1::text, $2::text, $3::text, $4::float8, $5::int, $6::text))

-- fragment: asked_all
unnest($1::text[], $2::text[], $3::text[], $4::float8[], $5::int[], $6::text[])

-- fragment: begin_leases asked
-- Answers for keys that are processed, leased or waiting as of its snapshot, and writes nothing
-- there. All other keys are inserted, in their order, or found inserted: then the row is locked, and
-- its latest version decides. A request that comes too late writes that version again, and thereby
-- returns it: a statement that does not write it could only return the one of its snapshot. Served
-- by the primary key.
WITH now AS MATERIALIZED (
    SELECT {clock}() AS at
), asked AS MATERIALIZED (
    SELECT * FROM {.asked} AS a(key, lease_id, owner, ttl, max_attempts, payload_hash)
), taken AS (
    SELECT l.* FROM asked a CROSS JOIN LATERAL (SELECT * FROM {inbox_leases} WHERE key = a.key LIMIT 1) l
     WHERE l.processed AND {copied} OR coalesce(l.lease_until, l.due_at) > (SELECT at FROM now)
), begun AS (
    INSERT INTO {inbox_leases} AS l (key, lease_id, owner, token, attempts, max_attempts, payload_hash, first_seen, last_seen, lease_until)
    SELECT a.key, a.lease_id, a.owner, 1, 1, a.max_attempts, a.payload_hash, now.at, now.at, now.at + a.ttl * interval '1 millisecond'
      FROM asked a CROSS JOIN now
     WHERE NOT EXISTS (SELECT 1 FROM taken t WHERE t.key = a.key)
     ORDER BY a.key COLLATE "C"
    ON CONFLICT (key) DO UPDATE
   SET {set_if may_begin "lease_id" "excluded.lease_id"},
       {set_if may_begin "owner" "excluded.owner"},
       {set_if may_begin "token" "l.token + 1"},
       {set_if may_begin "attempts" "l.attempts + 1"},
       {set_if may_begin "max_attempts" "excluded.max_attempts"},
       {set_if may_begin "payload_hash" "excluded.payload_hash"},
       {set_if may_begin "due_at" "NULL"},
       {set_if may_begin "last_seen" "greatest(l.last_seen, excluded.last_seen)"},
       {set_if may_begin "lease_until" "excluded.lease_until"}
    RETURNING *
)
SELECT {lease_columns "(SELECT at FROM now)"} FROM (SELECT * FROM taken UNION ALL SELECT * FROM begun) l

-- fragment: holds
-- The condition that $2 is the id of the lease of row l, which is neither released nor
-- processed.
(l.lease_id = $2 AND l.lease_until IS NOT NULL)

-- The statements about one lease wait for the transaction that has locked the row, and see what it
-- wrote. A lease that was lost changes nothing: the row is written as it is, to be returned.

-- name: lease_settle
UPDATE {inbox_leases} l
   SET {set_if holds "processed" "$3"},
       {set_if holds "attempts" "l.attempts - $4::int"},
       {set_if holds "last_seen" seen_now},
       {set_if holds "lease_until" "NULL"},
       {set_if holds "due_at" waits_until}
 WHERE l.key = $1
RETURNING {lease_columns the_time}

-- name: lease_renew
UPDATE {inbox_leases} l
   SET {set_if holds "last_seen" "greatest(l.last_seen, n.at)"},
       {set_if holds "lease_until" "n.at + $3 * interval '1 millisecond'"}
  FROM (SELECT {clock}() AS at) n
 WHERE l.key = $1
RETURNING {lease_columns "n.at"}

-- fragment: still_held
(l.lease_id = held_id AND l.lease_until IS NOT NULL)

-- name: lease_mark_all
-- Locks the rows in the order of their keys before it changes them.
WITH held AS (
    SELECT l.key AS held_key, a.lease_id AS held_id FROM (
        SELECT * FROM unnest($1::text[], $2::text[]) AS a(key, lease_id) ORDER BY a.key COLLATE "C") a
     CROSS JOIN LATERAL (SELECT key FROM {inbox_leases} WHERE key = a.key LIMIT 1 FOR UPDATE) l
)
UPDATE {inbox_leases} l
   SET {set_if still_held "processed" "true"},
       {set_if still_held "last_seen" seen_now},
       {set_if still_held "lease_until" "NULL"}
  FROM held
 WHERE l.key = held_key
RETURNING {lease_columns the_time}

-- name: lease_read
SELECT {lease_columns the_time} FROM {inbox_leases} WHERE key = $1
