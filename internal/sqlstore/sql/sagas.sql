-- fragment: this_saga
-- Served by the unique index.
tenant = $1 AND saga = $2 AND {key} = $3

-- The columns of a listed instance, and of one that is read.

-- fragment: saga_columns
number, version, definition, status, state, error, started_at, changed_at, ended_at

-- name: saga_read
SELECT {saga_columns}, data, progress FROM {sagas} WHERE {this_saga}

-- name: saga_lock
{saga_read} {for_update}

-- name: saga_list
SELECT {saga_columns}, tenant, saga, {key} FROM {sagas}

-- The parts of statements that add an instance or change it.

-- fragment: add_saga_columns
-- In the order of the arguments, except for the times, which are the same.
definition, status, state, data, progress, error, tenant, saga, {key}, version, started_at, changed_at, ended_at

-- fragment: written_saga
-- What is read of an instance that was written.
number, version, changed_at

-- fragment: saga_log_columns
-- The columns of an entry.
number, version, at, message_id, message_type, from_state, to_state, status, definition, node, note

-- The statements for stores that keep times as microseconds and whose clock is constant within a
-- statement. Each store adds their end.

-- fragment: add_saga
INSERT INTO {sagas} ({add_saga_columns})
VALUES ($1, $2, $3, $4, $5, $6, $8, $9, $10, 1, {now}, {now}, CASE WHEN $7 THEN {now} END)

-- fragment: update_saga
-- Compare-and-set: of several that have read one version the first changes it.
UPDATE {sagas}
   SET version = version + 1, definition = $1, status = $2, state = $3, data = $4, progress = $5, error = $6, changed_at = {now},
       ended_at = CASE WHEN $7 THEN {now} END
 WHERE number = $8 AND version = $9

-- name: saga_add_entry
INSERT INTO {saga_log} ({saga_log_columns}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)

-- name: saga_entries
SELECT l.version, l.at, l.message_id, l.message_type, l.from_state, l.to_state, l.status, l.definition, l.node, l.note
  FROM {saga_log} l
 WHERE l.number = (SELECT number FROM {sagas} WHERE {this_saga}) AND l.version > $4
 ORDER BY l.version LIMIT $5

-- name: saga_counts
-- Reads the rows of instances that have not ended, by the index on the status, and for the others
-- only the index, where the table is vacuumed.
SELECT saga, status, count(*), ({now} - min(changed_at)) / 1000000.0
  FROM {sagas} WHERE status IN ('running', 'compensating', 'stuck') GROUP BY saga, status
UNION ALL
SELECT saga, status, count(*), 0 FROM {sagas} WHERE status IN ('completed', 'compensated') GROUP BY saga, status
 ORDER BY 1, 2
