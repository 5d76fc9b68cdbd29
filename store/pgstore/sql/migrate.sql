-- name: lock_migration
-- Keeps other migrations of the database out until the transaction ends.
SELECT pg_advisory_xact_lock(hashtext('waybill migrate'))

-- name: migration_holder
-- Describes the session that holds the lock, as far as the role may see it.
SELECT l.pid, coalesce(a.usename, 'unknown'), coalesce(a.application_name, '')
  FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
 WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND (l.classid::bigint << 32) | l.objid::bigint = hashtext('waybill migrate')

-- name: set_default_source
-- Returns the column's default, for programs that need it without an INSERT.
CREATE OR REPLACE FUNCTION {default_source}() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS {definition}

-- name: table_exists
SELECT to_regclass($1) IS NOT NULL
