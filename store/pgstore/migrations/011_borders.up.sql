-- What other programs may write, and what only the schema's owner does. Programs of earlier versions
-- go on while this is applied and after it; rows that are there already are not checked.
INSERT INTO {schema_versions} (version, name) VALUES (11, '011_borders');

-- A message that was never in the outbox has a random negative position: if programs gave it, they
-- could take the one that a message of somebody else is going to have.
ALTER TABLE {scheduled}
    ALTER COLUMN position SET DEFAULT -1 - (random() * 9007199254740991)::bigint,
    ADD CONSTRAINT scheduled_storable CHECK (
        {storable}(id, topic, key, payload, payload_bytes, time, deliver_at, expires_at, enqueued_at) AND isfinite(due_at)) NOT VALID;
ALTER TABLE {schedules} ADD CONSTRAINT schedules_finite CHECK (isfinite(next_at) AND isfinite(last_at)) NOT VALID;

-- A row for each job that one program does at a time: who has locked it does the job. An advisory lock
-- of a name that anybody can guess could be held by anybody who may connect.
CREATE TABLE {locks} (name text COLLATE "C" PRIMARY KEY);
INSERT INTO {locks} (name) VALUES ('lanes'), ('fold'), ('archive'), ('inbox'), ('inbox_leases'), ('consumer_attempts'),
    ('dead_letters'), ('sagas'), ('audit_log');

-- What needs the owner's rights. Each of these functions does one thing with names of its own, so that
-- no other role has to own a table, or may make one here.

-- Makes the part of the archive for a day, in UTC.
CREATE FUNCTION {add_archive_day}(day date) RETURNS void LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    archive regclass := {outbox_archive_text}::regclass;
    today date := ({clock}() AT TIME ZONE 'UTC')::date;
    part text;
BEGIN
    IF day NOT BETWEEN today AND today + 31 THEN
        RAISE EXCEPTION 'the archive gets no part for %, only for the next 31 days', day;
    END IF;
    SELECT format('%I.%I', n.nspname, c.relname || '_' || to_char(day, 'YYYYMMDD')) INTO part
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = archive;
    EXECUTE format('CREATE TABLE %s (LIKE %s) WITH (autovacuum_enabled = false)', part, archive);
    EXECUTE format('ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)', archive, part,
                   to_char(day, 'YYYY-MM-DD') || ' 00:00:00+00', to_char(day + 1, 'YYYY-MM-DD') || ' 00:00:00+00');
END
$body$;

-- Drops the part for a day that is over.
CREATE FUNCTION {drop_archive_day}(day date) RETURNS void LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    archive regclass := {outbox_archive_text}::regclass;
    part regclass;
BEGIN
    IF day >= ({clock}() AT TIME ZONE 'UTC')::date THEN
        RAISE EXCEPTION 'the part of the archive for % is still in use', day;
    END IF;
    SELECT p.oid INTO part
      FROM pg_class c JOIN pg_inherits i ON i.inhparent = c.oid JOIN pg_class p ON p.oid = i.inhrelid
     WHERE c.oid = archive AND p.relname = c.relname || '_' || to_char(day, 'YYYYMMDD');
    IF part IS NOT NULL THEN
        EXECUTE format('DROP TABLE %s', part);
    END IF;
END
$body$;

-- Removes entries of the audit log that are older than that many milliseconds. A role that is not the
-- owner's cannot remove what is younger than thirty days.
CREATE FUNCTION {purge_audit}(older_than double precision, at_most integer) RETURNS SETOF bigint LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
    IF NOT pg_has_role(session_user, (SELECT relowner FROM pg_class WHERE oid = {audit_log_text}::regclass), 'USAGE') THEN
        older_than := greatest(older_than, 30 * 86400000.0);
    END IF;
    RETURN QUERY DELETE FROM {audit_log} a WHERE a.number IN (
        SELECT o.number FROM {audit_log} o WHERE o.at <= {clock}() - older_than * interval '1 millisecond' LIMIT at_most FOR UPDATE SKIP LOCKED)
    RETURNING a.number;
END
$body$;
REVOKE ALL ON FUNCTION {add_archive_day}(date), {drop_archive_day}(date), {purge_audit}(double precision, integer) FROM PUBLIC;
