-- name: migrate_lock
-- Waits for other migrations on the same server: the lock is the session's, because each CREATE
-- ends its transaction.
SELECT coalesce(GET_LOCK('waybill migrate', ?), 0)

-- name: migrate_unlock
DO RELEASE_LOCK('waybill migrate')

-- name: migrate_holder
-- Describes the session that holds the lock, as far as the user may see it.
SELECT u.id, coalesce(p.user, 'unknown'), coalesce(p.host, 'unknown')
  FROM (SELECT IS_USED_LOCK('waybill migrate') AS id) u LEFT JOIN information_schema.processlist p ON p.id = u.id
 WHERE u.id IS NOT NULL

-- name: versions_exist
SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?

-- name: session
SELECT @@autocommit
