-- name: condition
-- Counts small tables and reads statistics, and a thousand rows of the outbox.
SELECT (SELECT count(*) FROM {relays} WHERE expires_at > {clock}()),
       (SELECT count(*) FROM {relays} WHERE expires_at > {clock}() AND started_at < (SELECT max(applied_at) FROM {schema_versions})),
       count(*), count(*) FILTER (WHERE owner IS NULL OR owner NOT IN (SELECT node FROM {relays} WHERE expires_at > {clock}())),
       (SELECT n_dead_tup FROM pg_stat_all_tables WHERE relid = $1::text::regclass),
       (SELECT coalesce(extract(epoch FROM clock_timestamp() - greatest(last_vacuum, last_autovacuum))::float8, -1)
          FROM pg_stat_all_tables WHERE relid = $1::text::regclass),
       (SELECT count(*) FROM (SELECT * FROM {outbox} LIMIT 1000) o WHERE o.lane <> {lane}(o.key, o.id))
  FROM {relay_lanes}

-- name: holders
-- Reads views only. A session, or prepared transaction, of another database does
-- not hold up the vacuum of ours; slots and standbys have no database in this respect. An
-- enqueue shows as a ROW EXCLUSIVE lock on the outbox, which relays take for the length of a
-- statement as well; the locks of a prepared transaction have no pid, and one of them is on its
-- own id.
WITH writer AS (
    SELECT DISTINCT pid, virtualtransaction FROM pg_locks
     WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND granted
       AND relation = $1::text::regclass AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
), holder AS (
    SELECT 'session' AS kind, a.pid, coalesce(a.application_name, '') AS name, a.usename::text AS owner, coalesce(a.state, '') AS state,
           extract(epoch FROM clock_timestamp() - a.xact_start)::float8 * 1000 AS age_ms,
           greatest(age(a.backend_xmin), age(a.backend_xid)) AS xacts,
           a.pid IN (SELECT pid FROM writer) AS enqueued, false AS catalog_only, coalesce(a.query, '') AS query
      FROM pg_stat_activity a
     WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.backend_type <> 'autovacuum worker'
       AND a.xact_start <= clock_timestamp() - $2 * interval '1 millisecond'
    UNION ALL
    SELECT 'prepared transaction', 0, p.gid, p.owner::text, '',
           extract(epoch FROM clock_timestamp() - p.prepared)::float8 * 1000, age(p.transaction),
           p.transaction IN (SELECT l.transactionid FROM pg_locks l JOIN writer w USING (virtualtransaction)
                              WHERE l.locktype = 'transactionid' AND l.pid IS NULL AND w.pid IS NULL), false, ''
      FROM pg_prepared_xacts p
     WHERE p.database = current_database() AND p.prepared <= clock_timestamp() - $2 * interval '1 millisecond'
    UNION ALL
    SELECT 'replication slot', 0, s.slot_name::text, '', CASE WHEN s.active THEN 'active' ELSE 'inactive' END,
           0, greatest(age(s.xmin), age(s.catalog_xmin)), false, s.xmin IS NULL, ''
      FROM pg_replication_slots s
     WHERE greatest(age(s.xmin), age(s.catalog_xmin)) >= $3
    UNION ALL
    SELECT 'standby', r.pid, coalesce(r.application_name, ''), r.usename::text, coalesce(r.state, ''), 0, age(r.backend_xmin), false, false, ''
      FROM pg_stat_replication r
     WHERE age(r.backend_xmin) >= $3
)
SELECT kind, pid, name, coalesce(owner, ''), state, age_ms, xacts IS NOT NULL, coalesce(xacts, 0)::bigint, enqueued, catalog_only, query
  FROM holder ORDER BY age_ms DESC, xacts DESC

-- name: session_facts
-- Counts connections by the statistics of databases, which every role may see.
SELECT current_setting('server_version'), current_setting('TimeZone'),
       current_setting('default_transaction_isolation'), clock_timestamp(),
       current_user::text, (SELECT rolsuper FROM pg_roles WHERE rolname = current_user),
       (SELECT sum(numbackends) FROM pg_stat_database)::int,
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int

-- name: parts
-- Describes the tables, indexes, triggers, checks and functions of the schema, one line
-- each, without the prefix. Names of indexes do not matter: one that was recreated next to the old
-- one has another. What is disabled or unfinished is not listed, except for indexes, which are
-- listed as such.
WITH named AS (
    SELECT c.oid, c.relkind, substr(c.relname, char_length($2) + 1) AS name
      FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = $1 AND starts_with(c.relname, $2)
)
SELECT CASE relkind WHEN 'v' THEN 'view ' WHEN 'S' THEN 'sequence ' ELSE 'table ' END || name
  FROM named WHERE relkind IN ('r', 'p', 'v', 'S')
UNION ALL
SELECT CASE WHEN NOT (x.indisvalid AND x.indisready) THEN '{unfinished}' ELSE '' END
       || CASE WHEN x.indisprimary THEN 'primary key ' WHEN x.indisunique THEN 'unique index ' ELSE 'index ' END || t.name
       || ' (' || (SELECT string_agg(a.attname, ', ' ORDER BY k.n) FILTER (WHERE k.n <= x.indnkeyatts) || ')'
                   || coalesce(' INCLUDE (' || string_agg(a.attname, ', ' ORDER BY k.n) FILTER (WHERE k.n > x.indnkeyatts) || ')', '')
                     FROM unnest(x.indkey) WITH ORDINALITY AS k(number, n)
                     JOIN pg_catalog.pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.number)
       || coalesce(' WHERE ' || pg_get_expr(x.indpred, x.indrelid), '')
  FROM pg_catalog.pg_index x JOIN named t ON t.oid = x.indrelid
UNION ALL
SELECT 'trigger ' || g.tgname || ' on ' || t.name
  FROM pg_catalog.pg_trigger g JOIN named t ON t.oid = g.tgrelid
 WHERE NOT g.tgisinternal AND g.tgenabled IN ('O', 'A')
UNION ALL
SELECT 'check on ' || t.name || ' (' || (SELECT string_agg(a.attname, ', ' ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
                                          WHERE a.attrelid = k.conrelid AND a.attnum = ANY (k.conkey)) || ')'
  FROM pg_catalog.pg_constraint k JOIN named t ON t.oid = k.conrelid
 WHERE k.contype = 'c'
UNION ALL
SELECT 'function ' || substr(f.proname, char_length($2) + 1)
  FROM pg_catalog.pg_proc f JOIN pg_catalog.pg_namespace n ON n.oid = f.pronamespace
 WHERE n.nspname = $1 AND starts_with(f.proname, $2)

-- name: missing_rights
-- Returns the numbers of the rights that the session's role lacks. It reads the catalogue by name,
-- because without USAGE on the schema its names are errors; a right on an object that does not
-- exist, in an older schema, is not missing.
SELECT i.ord::int
  FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::text[])) WITH ORDINALITY AS i(object, col, asked, ord)
  JOIN pg_catalog.pg_namespace n ON n.nspname = $4
  LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = $5 || i.object
 WHERE NOT CASE WHEN i.object = '' THEN has_schema_privilege(n.oid, i.asked)
                WHEN i.asked = 'EXECUTE' THEN coalesce((SELECT bool_and(has_function_privilege(f.oid, i.asked)) FROM pg_catalog.pg_proc f
                                                         WHERE f.pronamespace = n.oid AND f.proname = $5 || i.object), true)
                WHEN c.oid IS NULL THEN true
                WHEN c.relkind = 'S' THEN has_sequence_privilege(c.oid, i.asked)
                WHEN i.col <> '' THEN coalesce((SELECT has_column_privilege(c.oid, a.attnum, i.asked) FROM pg_catalog.pg_attribute a
                                                WHERE a.attrelid = c.oid AND a.attname = i.col), true)
                ELSE has_table_privilege(c.oid, i.asked) END
 ORDER BY i.ord
