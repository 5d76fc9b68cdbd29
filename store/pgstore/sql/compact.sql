-- name: compact_gate
{compact_insert "false"}

-- name: compact_gate_dead
{compact_insert lock_soon}

-- fragment: compact_insert dead
-- The insert into the compact inbox. It looks into the full one too: what was processed before the
-- store was configured with CompactInbox stays processed. The message's id and extra data are not
-- kept, nor is a hash of another form than the store's; the first part gives their parameters a type.
WITH unread AS (SELECT $6::text, $9::text)
INSERT INTO {inbox_compact} (scope, key, payload_hash, dead)
SELECT (SELECT s.id FROM {inbox_scopes} s
         WHERE s.tenant = $1 AND s.consumer = $2 AND s.source = $3 AND s.alias = $4 AND s.type = $7),
       {inbox_key}($1, $2, $3, $4, $5), CASE WHEN $8 ~ '^[0-9a-f]{"{64}"}$' THEN left($8, 32)::uuid END, {.dead}
 WHERE NOT EXISTS (SELECT 1 FROM {inbox} WHERE {this_key})
ON CONFLICT (key) DO NOTHING

-- name: compact_gate_all
-- The same for many records, in the order of the arrays.
WITH i AS MATERIALIZED (
    SELECT i.*, {inbox_key}(i.tenant, i.consumer, i.source, i.alias, i.message_key) AS hash FROM {record_arrays}
)
INSERT INTO {inbox_compact} (scope, key, payload_hash)
SELECT s.id, i.hash, CASE WHEN i.payload_hash ~ '^[0-9a-f]{"{64}"}$' THEN left(i.payload_hash, 32)::uuid END
  FROM i LEFT JOIN {inbox_scopes} s USING (tenant, consumer, source, alias, type)
 WHERE NOT EXISTS (SELECT 1 FROM {inbox} f WHERE f.tenant = i.tenant AND f.consumer = i.consumer AND f.source = i.source
                      AND f.alias = i.alias AND f.message_key = i.message_key)
 ORDER BY i.ord
ON CONFLICT (key) DO NOTHING

-- fragment: compact_hash
-- A record's hash, in hex, as far as it is kept.
coalesce(replace(c.payload_hash::text, '-', ''), '')

-- name: compact_gate_outcome
SELECT c.dead, {compact_hash} FROM {inbox_compact} c WHERE c.key = {inbox_key}($1, $2, $3, $4, $5) AND {copied}
UNION ALL {gate_outcome}

-- name: compact_gate_outcomes
SELECT r.is_new, r.dead, r.hash
  FROM {key_arrays}
 CROSS JOIN LATERAL (
    SELECT coalesce(c.xmin = pg_current_xact_id_if_assigned()::xid, false) AS is_new, c.dead, {compact_hash} AS hash
      FROM {inbox_compact} c
     WHERE c.key = {inbox_key}(k.tenant, k.consumer, k.source, k.alias, k.message_key)
    UNION ALL
    SELECT false, f.dead, coalesce(f.payload_hash, '') FROM {inbox} f
     WHERE f.tenant = k.tenant AND f.consumer = k.consumer AND f.source = k.source AND f.alias = k.alias AND f.message_key = k.message_key
    LIMIT 1) r
 WHERE {copied}
 ORDER BY k.ord

-- name: compact_find_record
-- Finds a record in either form. A compact one has neither the message's id nor extra data.
SELECT '', coalesce(s.type, ''), {compact_hash}, NULL::text, c.processed_at, c.dead
  FROM {inbox_compact} c LEFT JOIN {inbox_scopes} s ON s.id = c.scope WHERE c.key = {inbox_key}($1, $2, $3, $4, $5)
UNION ALL
{find_record}

-- name: add_scope
-- Draws an id only where there is no row yet: ids are integers, and it runs again for a scope that
-- exists already, in the transaction of a caller once for each record.
INSERT INTO {inbox_scopes} (tenant, consumer, source, alias, type)
SELECT $1, $2, $3, $4, $5
 WHERE NOT EXISTS (SELECT 1 FROM {inbox_scopes} s WHERE s.tenant = $1 AND s.consumer = $2 AND s.source = $3 AND s.alias = $4 AND s.type = $5)
ON CONFLICT DO NOTHING
