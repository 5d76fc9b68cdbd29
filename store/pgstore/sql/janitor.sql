-- Which rows are past their retention, of $1 milliseconds, and belong to the tenant $2.

-- fragment: past_retention time
{.time} <= (SELECT {clock}()) - $1 * interval '1 millisecond'

-- fragment: expired_compact
NOT dead AND {past_retention "processed_at"}
   AND ($2 = '' OR scope IN (SELECT id FROM {inbox_scopes} WHERE tenant = $2))

-- fragment: expired_leases
-- A key that is leased, or waits, is not removed by its retention. Served by the index on
-- first_seen: what was last seen before a time was first seen before it.
{past_retention "first_seen"} AND {past_retention "last_seen"}
   AND coalesce(coalesce(lease_until, due_at) <= (SELECT {clock}()), true) AND $2::text = ''

-- fragment: expired_audit
{past_retention "at"} AND $2::text = ''

-- fragment: expired_responses
-- Served by the index on expires_at.
{past_retention "expires_at"} AND $2::text = ''

-- The statements for dead letters. The first locks what it returns, so that nobody can requeue it
-- or queue something behind it; the last then looks once more, with a snapshot of its own, for what
-- was put there before the lock.

-- name: cleanup_expired_letters
SELECT d.number {expired_letters} ORDER BY d.number LIMIT $3 FOR UPDATE OF d SKIP LOCKED

-- name: cleanup_purge_records
WITH compact AS (
    DELETE FROM {inbox_compact} c USING {dead_letters} d
     WHERE d.number = ANY ($1) AND d.origin = 'consumer' AND d.message_key <> '' AND c.dead
       AND c.key = {inbox_key}(d.tenant, d.consumer, d.source, d.alias, d.message_key)
)
DELETE FROM {inbox} i USING {dead_letters} d
 WHERE d.number = ANY ($1) AND d.origin = 'consumer' AND d.message_key <> '' AND i.dead
   AND i.tenant = d.tenant AND i.consumer = d.consumer AND i.source = d.source AND i.alias = d.alias AND i.message_key = d.message_key

-- name: cleanup_purge_letters
DELETE FROM {dead_letters} d WHERE d.number = ANY ($1) AND NOT {behind_letter}

-- name: cleanup_note_cleanup
INSERT INTO {audit_log} (action, actor, detail) VALUES ('cleanup', 'janitor', $1)

-- The statements for sagas. An instance that is locked belongs to a transaction that handles a
-- message for it.

-- name: cleanup_expired_sagas
SELECT number FROM {sagas} WHERE {expired_sagas} LIMIT $3 FOR UPDATE SKIP LOCKED

-- name: cleanup_purge_saga_log
DELETE FROM {saga_log} WHERE number = ANY ($1)

-- name: cleanup_purge_sagas
DELETE FROM {sagas} WHERE number = ANY ($1)

-- The statements for the inbox are about both of its forms. The number of rows that the second
-- returns is that of the records it has removed.

-- name: cleanup_count_inbox
SELECT (SELECT count(*) FROM {inbox} WHERE {expired_inbox}) + (SELECT count(*) FROM {inbox_compact} WHERE {expired_compact})

-- name: cleanup_purge_inbox
WITH plain AS (
    DELETE FROM {inbox} WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {inbox} WHERE {expired_inbox} LIMIT $3 FOR UPDATE SKIP LOCKED)) RETURNING 1
), compact AS (
    DELETE FROM {inbox_compact} WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {inbox_compact} WHERE {expired_compact}
         LIMIT $3 - (SELECT count(*) FROM plain) FOR UPDATE SKIP LOCKED)) RETURNING 1
)
SELECT 1 FROM plain UNION ALL SELECT 1 FROM compact

-- name: cleanup_purge_responses
-- Finds rows by their key, so that no right to read a response is needed.
DELETE FROM {idempotency_responses} WHERE key = ANY (ARRAY(
    SELECT key FROM {idempotency_responses} WHERE {expired_responses} LIMIT $3 FOR UPDATE SKIP LOCKED))

-- fragment: purge table expired
-- Deletes a batch by place. What another transaction has locked is left out: a row that is being
-- changed is not past its retention, or is being removed by that transaction.
DELETE FROM {.table} WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {.table} WHERE {.expired} LIMIT $3 FOR UPDATE SKIP LOCKED))

-- name: cleanup_purge_attempts
{purge consumer_attempts expired_attempts}

-- name: cleanup_purge_leases
{purge inbox_leases expired_leases}

-- name: cleanup_purge_audit
SELECT {purge_audit}($1, $3) WHERE $2::text = ''

-- fragment: try_lock job
-- True for one transaction at a time, of those of the schema that ask for the job.
SELECT count(*) > 0 FROM (SELECT 1 FROM {locks} WHERE name = '{.job}' FOR UPDATE SKIP LOCKED) l

-- name: try_janitor
{try_lock "archive"}
