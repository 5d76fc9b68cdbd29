-- fragment: add_saga
-- Waits for another transaction that adds an instance with the key, and leaves the caller's own
-- usable if there is one.
INSERT INTO {sagas} ({add_saga_columns})
SELECT $1::integer, $2::text, $3::text, $4::text, $5::text, $6::text, $8::text, $9::text, $10::text, 1, n.now, n.now,
       CASE WHEN $7::boolean THEN n.now END
  FROM (SELECT {clock}() AS now) n
    ON CONFLICT (key, saga, tenant) DO NOTHING

-- fragment: update_saga
-- Compare-and-set: of several that have read one version the first changes it.
UPDATE {sagas}
   SET version = version + 1, definition = $1::integer, status = $2::text, state = $3::text, data = $4::text, progress = $5::text,
       error = $6::text, changed_at = n.now, ended_at = CASE WHEN $7::boolean THEN n.now END
  FROM (SELECT {clock}() AS now) n
 WHERE number = $8::bigint AND version = $9::bigint

-- name: saga_counts
-- Reads the rows of instances that have not ended, by the index on the status, and for the others
-- only the index, where the table is vacuumed.
SELECT saga, status, count(*), extract(epoch FROM {clock}() - min(changed_at))::float8
  FROM {sagas} WHERE status IN ('running', 'compensating', 'stuck') GROUP BY saga, status
UNION ALL
SELECT saga, status, count(*), 0 FROM {sagas} WHERE status IN ('completed', 'compensated') GROUP BY saga, status
 ORDER BY 1, 2

-- name: saga_add
{logged add_saga "$11::text, $12::text, $13::text, $14::text, $15::text, $16::integer, $17::text, $18::text"}

-- name: saga_update
{logged update_saga "$10::text, $11::text, $12::text, $13::text, $14::text, $15::integer, $16::text, $17::text"}

-- fragment: logged write entry
-- Writes an instance, and its log with the arguments of an entry.
WITH s AS ({.write}
 RETURNING {written_saga}
)
INSERT INTO {saga_log} ({saga_log_columns})
SELECT s.number, s.version, s.changed_at, {.entry} FROM s
RETURNING number, version, at

-- name: saga_add_entry
-- Not needed: saga_add and saga_update write the entry, too.
