-- The statements for dead letters. The first locks what it returns, so that nobody can requeue it
-- or queue something behind it; the last then looks once more for what was put there before the
-- lock.

-- name: cleanup_expired_letters
SELECT d.number {expired_letters} ORDER BY d.number LIMIT $3 FOR UPDATE SKIP LOCKED

-- name: cleanup_purge_records
DELETE i FROM {listed}
  STRAIGHT_JOIN {dead_letters} d FORCE INDEX (PRIMARY) ON d.number = n.number
  STRAIGHT_JOIN {inbox} i FORCE INDEX (PRIMARY)
        ON i.tenant = d.tenant AND i.consumer = d.consumer AND i.source = d.source AND i.alias = d.alias AND i.message_key = d.message_key
 WHERE d.origin = 'consumer' AND d.message_key <> '' AND i.dead

-- name: cleanup_purge_letters
DELETE d FROM {listed} STRAIGHT_JOIN {dead_letters} d FORCE INDEX (PRIMARY) ON d.number = n.number
 WHERE NOT {behind_letter}

-- The statements for sagas. An instance that is locked belongs to a transaction that handles a
-- message for it.

-- name: cleanup_expired_sagas
SELECT number FROM {sagas} FORCE INDEX (by_time) WHERE {expired_sagas} LIMIT $3 FOR UPDATE SKIP LOCKED

-- name: cleanup_purge_saga_log
DELETE l FROM {listed} STRAIGHT_JOIN {saga_log} l FORCE INDEX (PRIMARY) ON l.number = n.number

-- name: cleanup_purge_sagas
DELETE s FROM {listed} STRAIGHT_JOIN {sagas} s FORCE INDEX (PRIMARY) ON s.number = n.number

-- fragment: purge table key expired
-- Deletes rows by their key, which it finds along the index by_time: rows in use are younger. The
-- server makes a table of the keys first, because they have a LIMIT.
DELETE d FROM (SELECT {.key} FROM {.table} FORCE INDEX (by_time) WHERE {.expired}) k
  STRAIGHT_JOIN {.table} d FORCE INDEX (PRIMARY) ON {same .key}

-- fragment: purge_some table key expired
{purge .table .key (printf "%s LIMIT $3" .expired)}

-- fragment: purge_keys table expired
-- For rows that others change: it leaves out what they have locked, and so cannot deadlock with
-- them.
{purge .table key (printf "%s LIMIT $3 FOR UPDATE SKIP LOCKED" .expired)}

-- name: cleanup_purge_inbox
{purge_some inbox key_columns expired_inbox}

-- name: cleanup_purge_attempts
{purge_some consumer_attempts key_columns expired_attempts}

-- name: cleanup_purge_leases
{purge_keys inbox_leases expired_leases}

-- name: cleanup_purge_responses
{purge_keys idempotency_responses expired_responses}

-- name: cleanup_purge_audit
{purge_some audit_log "number" expired_audit}

-- The purges of the archive delete a batch.

-- name: purge_archive
{purge outbox_archive "published_at, position, destination" (printf "%s LIMIT $2" (past_retention "published_at"))}

-- name: purge_ids
{purge outbox_ids "id" (printf "%s LIMIT $2" (past_retention "enqueued_at"))}

-- fragment: try_lock job
-- Returns a row to only one transaction at once, which then does the job.
SELECT 1 FROM {locks} WHERE name = '{.job}' FOR UPDATE SKIP LOCKED

-- name: lock_archive
{try_lock "outbox_archive"}
