-- fragment: lease_columns
-- What sqlstore reads of a key.
{key}, lease_id, owner, token, attempts, processed, coalesce(coalesce(lease_until, due_at) > {now}, 0),
       coalesce(greatest(0, coalesce(lease_until, due_at) - {now}), 0) / 1000.0, first_seen, last_seen, lease_until, due_at, coalesce(payload_hash, '')

-- fragment: may_begin
-- The condition under which the request with the id $2 gets the key. Once the row has that id the condition
-- depends on no other column that is assigned before lease_until, the last one, except due_at: a request
-- that gets the key finds it past, and NULL means the same.
NOT processed AND coalesce(coalesce(lease_until, due_at) <= {now}, 1) AND ($5 = 0 OR attempts < $5 OR lease_id = $2)

-- fragment: used_up
-- The condition under which may_begin would be wrong: the row had the id before, from the
-- same request, and has no attempts left. It locks the row, which stays as it is until the answer is read.
coalesce((SELECT lease_id = $2 AND $5 > 0 AND attempts >= $5 FROM {inbox_leases} WHERE {key} = $1 FOR UPDATE), 0)

-- fragment: holds
-- The condition that $2 is the id of a lease that is neither released nor processed,
-- until lease_until is assigned.
lease_id = $2 AND lease_until IS NOT NULL

-- fragment: set_if condition column value
-- An assignment: the column gets the value if the condition holds, and stays as it is otherwise. The server
-- makes several assignments one after the other, or, in one of its modes, at the same time: the condition
-- must be true or false for both.
{.column} = CASE WHEN {.condition} THEN {.value} ELSE {.column} END

-- fragment: seen_now
greatest(last_seen, {now})

-- fragment: after n
-- n milliseconds after now.
{now} + {millis .n}

-- There are none for many keys: no form of RETURNING works on both servers.
--
-- The statements about one key lock its row, also where they leave it as it is. Their time is that of their
-- start: a transaction that was waited for may have written a later one. Served by the primary key.

-- name: lease_begin
INSERT INTO {inbox_leases} ({key}, lease_id, owner, token, attempts, max_attempts, payload_hash, first_seen, last_seen, lease_until)
SELECT $1, $2, $3, 1, 1, $5, $6, {now}, {now}, {now} + CAST($4 * 1000 AS SIGNED) FROM DUAL WHERE NOT {used_up}
ON DUPLICATE KEY UPDATE
       {set_if may_begin "lease_id" "$2"},
       {set_if may_begin "owner" "$3"},
       {set_if may_begin "token" "token + 1"},
       {set_if may_begin "attempts" "attempts + 1"},
       {set_if may_begin "max_attempts" "$5"},
       {set_if may_begin "payload_hash" "$6"},
       {set_if may_begin "due_at" "NULL"},
       {set_if may_begin "last_seen" seen_now},
       {set_if may_begin "lease_until" (after "$4")}

-- name: lease_settle
UPDATE {inbox_leases}
   SET {set_if holds "processed" "$3"},
       {set_if holds "attempts" "attempts - $4"},
       {set_if holds "due_at" (after "nullif($5, 0)")},
       {set_if holds "last_seen" seen_now},
       {set_if holds "lease_until" "NULL"}
 WHERE {key} = $1

-- name: lease_renew
UPDATE {inbox_leases}
   SET {set_if holds "last_seen" seen_now},
       {set_if holds "lease_until" (after "$3")}
 WHERE {key} = $1

-- name: lease_read
SELECT {lease_columns} FROM {inbox_leases} WHERE {key} = $1
