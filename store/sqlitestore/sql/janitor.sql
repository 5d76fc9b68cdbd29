-- fragment: try_lock name
-- There is only one writer anyway.

-- There is only one writer, so nothing happens between these.

-- name: cleanup_expired_letters
SELECT d.number {expired_letters} ORDER BY d.number LIMIT $3

-- name: cleanup_purge_records
DELETE FROM {inbox}
 WHERE dead AND ({key_columns}) IN (
    SELECT {key_columns} FROM {dead_letters}
     WHERE number IN (SELECT value FROM json_each($1)) AND origin = 'consumer' AND message_key <> '')

-- name: cleanup_purge_letters
DELETE FROM {dead_letters} WHERE number IN (SELECT value FROM json_each($1))

-- name: cleanup_expired_sagas
SELECT number FROM {sagas} WHERE {expired_sagas} LIMIT $3

-- name: cleanup_purge_saga_log
DELETE FROM {saga_log} WHERE number IN (SELECT value FROM json_each($1))

-- name: cleanup_purge_sagas
DELETE FROM {sagas} WHERE number IN (SELECT value FROM json_each($1))

-- fragment: purge table key expired
DELETE FROM {.table} WHERE ({.key}) IN (SELECT {.key} FROM {.table} WHERE {.expired} LIMIT $3)

-- name: cleanup_purge_inbox
{purge inbox key_columns expired_inbox}

-- name: cleanup_purge_attempts
{purge consumer_attempts key_columns expired_attempts}

-- name: cleanup_purge_leases
{purge inbox_leases "key" expired_leases}

-- name: cleanup_purge_audit
{purge audit_log "number" expired_audit}

-- name: cleanup_purge_responses
{purge idempotency_responses "key" expired_responses}
