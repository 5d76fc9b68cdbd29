-- name: gate
-- The inbox insert, which decides who handles a message: the primary key lets one transaction
-- insert, and a concurrent one waits here for its end.
INSERT INTO {inbox} (tenant, consumer, source, alias, message_key, message_id, type, payload_hash, extra_data)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::text::jsonb)
ON CONFLICT (tenant, consumer, source, alias, message_key) DO NOTHING

-- name: gate_dead
INSERT INTO {inbox} (tenant, consumer, source, alias, message_key, message_id, type, payload_hash, extra_data, dead)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::text::jsonb, {lock_soon})
ON CONFLICT (tenant, consumer, source, alias, message_key) DO NOTHING

-- name: gate_all
-- The inbox insert for many records. They are inserted in the order of the arrays, which is that of
-- the keys; so transactions that have some in common wait for each other in one direction. It
-- returns no rows: those of a batch are nearly always all new, and their number says so.
INSERT INTO {inbox} (tenant, consumer, source, alias, message_key, message_id, type, payload_hash, extra_data)
SELECT i.tenant, i.consumer, i.source, i.alias, i.message_key, i.message_id, i.type, i.payload_hash, i.extra_data::jsonb
  FROM {record_arrays}
 ORDER BY i.ord
ON CONFLICT (tenant, consumer, source, alias, message_key) DO NOTHING

-- fragment: record_arrays
-- Records as rows. What many of them have in common, their scope, is sent once;
-- an array that is NULL stands for one of NULLs.
(
    SELECT s.tenant, s.consumer, s.source, s.alias, s.type, r.message_key, coalesce(r.message_id, r.message_key) AS message_id,
           r.payload_hash, r.extra_data, r.ord
      FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])
           WITH ORDINALITY AS s(tenant, consumer, source, alias, type, scope)
      JOIN unnest($6::int[], $7::text[], $8::text[], $9::text[], $10::text[])
           WITH ORDINALITY AS r(scope, message_key, message_id, payload_hash, extra_data, ord) USING (scope)
    ) AS i

-- name: gate_outcomes
-- gate_outcome for many records, by the primary key, preceded by whether this transaction has
-- inserted the row.
SELECT coalesce(i.xmin = pg_current_xact_id_if_assigned()::xid, false), i.dead, coalesce(i.payload_hash, '')
  FROM {key_arrays}
  JOIN {inbox} i USING (tenant, consumer, source, alias, message_key)
 WHERE {copied}
 ORDER BY k.ord

-- fragment: key_arrays
unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])
       WITH ORDINALITY AS k(tenant, consumer, source, alias, message_key, ord)

-- name: find_record
-- Reads one record by the primary key.
SELECT message_id, type, coalesce(payload_hash, ''), extra_data::text, processed_at, dead FROM {inbox} WHERE {this_key}

-- name: read_attempts
SELECT attempts, greatest(0, extract(epoch FROM due_at - {clock}()) * 1000)::float8, starts, error
  FROM {consumer_attempts} WHERE {this_key}

-- name: save_attempt
INSERT INTO {consumer_attempts} AS a (tenant, consumer, source, alias, message_key, attempts, due_at, error, first_failed_at, updated_at, history)
VALUES ($1, $2, $3, $4, $5, $6, {clock}() + $7 * interval '1 millisecond', $8, {clock}(), {clock}(), {with_attempt}(NULL, $9, $10, $8))
ON CONFLICT (tenant, consumer, source, alias, message_key) DO UPDATE
   SET attempts = excluded.attempts, due_at = excluded.due_at, error = excluded.error, updated_at = excluded.updated_at, starts = 0,
       first_failed_at = CASE WHEN a.attempts = 0 THEN excluded.first_failed_at ELSE a.first_failed_at END,
       history = CASE WHEN excluded.attempts > a.attempts THEN {with_attempt}(a.history, $9, $10, $8) ELSE a.history END

-- The counts of started attempts. They are written in a separate transaction, so that they stay if
-- the process ends within the attempt. A row without a failed attempt is due at once.
--
-- A handler's transaction may hold them.

-- name: save_starts
INSERT INTO {consumer_attempts} (tenant, consumer, source, alias, message_key, starts, attempts, due_at, error, first_failed_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, CASE WHEN {lock_soon} THEN 0 END, {clock}(), '', {clock}(), {clock}())
ON CONFLICT (tenant, consumer, source, alias, message_key) DO UPDATE
   SET starts = excluded.starts, updated_at = excluded.updated_at

-- name: clear_starts
UPDATE {consumer_attempts} SET starts = 0, updated_at = {clock}() WHERE {lock_soon} AND {this_key}

-- name: revive
-- Changes the record in whichever form it is.
WITH compact AS (
    UPDATE {inbox_compact} SET dead = false, processed_at = date_bin('10 seconds', {clock}(), 'epoch') WHERE key = {inbox_key}($1, $2, $3, $4, $5)
)
UPDATE {inbox} SET dead = false, processed_at = {clock}() WHERE {this_key}

-- fragment: lock_soon
-- Part of a statement that may wait for the transaction of a handler, outside of such a
-- transaction. It is true, and its setting applies until the transaction ends.
set_config('lock_timeout', '1s', true) <> ''

-- name: inbox_states
-- No index serves it: the keys begin with tenant and consumer. A compact record is found by trying
-- the id as the key in each scope.
SELECT tenant, consumer, source, alias, message_key, message_id, type,
       CASE WHEN NOT dead THEN processed_at END, CASE WHEN dead THEN processed_at END, 0, NULL::timestamptz, ''
  FROM {inbox} WHERE (message_id = $1 OR message_key = $1) AND ($2 = '' OR consumer = $2)
UNION ALL
SELECT s.tenant, s.consumer, s.source, s.alias, $1, $1, s.type,
       CASE WHEN NOT c.dead THEN c.processed_at END, CASE WHEN c.dead THEN c.processed_at END, 0, NULL, ''
  FROM {inbox_scopes} s JOIN {inbox_compact} c ON c.key = {inbox_key}(s.tenant, s.consumer, s.source, s.alias, $1) AND c.scope = s.id
 WHERE $1 <> '' AND ($2 = '' OR s.consumer = $2)
UNION ALL
SELECT tenant, consumer, source, alias, message_key, '', '', NULL, NULL, attempts, due_at, error
  FROM {consumer_attempts} a
 WHERE message_key = $1 AND ($2 = '' OR consumer = $2)
   AND NOT EXISTS (SELECT 1 FROM {inbox} i WHERE i.tenant = a.tenant AND i.consumer = a.consumer AND i.source = a.source
                      AND i.alias = a.alias AND i.message_key = a.message_key)
   AND NOT EXISTS (SELECT 1 FROM {inbox_compact} c WHERE c.key = {inbox_key}(a.tenant, a.consumer, a.source, a.alias, a.message_key))
 ORDER BY 2, 1, 3, 4, 5

-- name: inbox_size
-- Finds the oldest record by the index on the time, and takes the number from the last count of
-- vacuum: -1 before the first.
SELECT CASE WHEN max(c.reltuples) < 0 THEN -1 ELSE sum(greatest(c.reltuples, 0)) END::bigint,
       extract(epoch FROM {clock}() - min(i.processed_at))::float8
  FROM ((SELECT tableoid, processed_at FROM {inbox} ORDER BY processed_at LIMIT 1) UNION ALL
        (SELECT tableoid, processed_at FROM {inbox_compact} ORDER BY processed_at LIMIT 1)) i
  JOIN pg_catalog.pg_class c ON c.oid = i.tableoid
HAVING count(*) > 0
