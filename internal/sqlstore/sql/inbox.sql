-- fragment: this_key
-- The condition of a statement about an inbox key.
tenant = $1 AND consumer = $2 AND source = $3 AND alias = $4 AND message_key = $5

-- fragment: key_columns
-- The columns of an inbox key.
tenant, consumer, source, alias, message_key

-- name: inbox_states
-- No index serves it: the keys begin with tenant and consumer.
SELECT tenant, consumer, source, alias, message_key, message_id, type,
       CASE WHEN NOT dead THEN processed_at END, CASE WHEN dead THEN processed_at END, 0, NULL, ''
  FROM {inbox} WHERE (message_id = $1 OR message_key = $1) AND ($2 = '' OR consumer = $2)
UNION ALL
SELECT tenant, consumer, source, alias, message_key, '', '', NULL, NULL, attempts, due_at, error
  FROM {consumer_attempts} a
 WHERE message_key = $1 AND ($2 = '' OR consumer = $2)
   AND NOT EXISTS (SELECT 1 FROM {inbox} i WHERE i.tenant = a.tenant AND i.consumer = a.consumer AND i.source = a.source
                      AND i.alias = a.alias AND i.message_key = a.message_key)
 ORDER BY 2, 1, 3, 4, 5

-- name: inbox_size
-- Finds the oldest record by the index on the time. It returns no number of records: it is for a
-- store that keeps no good count.
SELECT -1, ({now} - processed_at) / 1000000.0 FROM {inbox} ORDER BY processed_at LIMIT 1

-- name: gate_outcome
-- A separate statement: within gate a concurrent duplicate would not see the row that it has waited
-- for.
SELECT dead, coalesce(payload_hash, '') FROM {inbox} WHERE {this_key}

-- name: find_record
-- Reads one record by the primary key.
SELECT message_id, type, coalesce(payload_hash, ''), extra_data, processed_at, dead FROM {inbox} WHERE {this_key}

-- name: clear_attempts
DELETE FROM {consumer_attempts} WHERE {this_key}

-- name: clear_starts
UPDATE {consumer_attempts} SET starts = 0, updated_at = {now} WHERE {this_key}

-- name: revive
UPDATE {inbox} SET dead = 0, processed_at = {now} WHERE {this_key}
