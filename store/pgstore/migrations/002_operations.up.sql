-- Operations on dead letters: groups, history, decisions, and the audit log of all changes.
--
-- Relays and consumers of version 1 go on while this is applied and after it: each new column
-- has a default, and triggers fill in what they do not write. The step holds up whoever writes
-- dead letters for as long as it takes to index those that there are. By hand it is to be run in
-- one transaction (psql -1), or counts may miss what happens meanwhile.

INSERT INTO {schema_versions} (version, name) VALUES (2, '002_operations');

-- fingerprint names the group of letters that fail alike; it is empty until somebody who can
-- make it has seen a letter of version 1. A letter is open, resolved or discarded.
ALTER TABLE {dead_letters}
    ADD COLUMN fingerprint text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN state text COLLATE "C" NOT NULL DEFAULT 'open'
        CONSTRAINT dead_letters_state CHECK (state IN ('open', 'resolved', 'discarded')),
    ADD COLUMN history jsonb;
UPDATE {dead_letters} SET state = 'resolved' WHERE resolved_at IS NOT NULL;

-- Failed attempts, as a JSON array: the first one and the last ones, 20 at most. The letters
-- have it too; they come first because settlements lock them first.
ALTER TABLE {outbox_waiting} ADD COLUMN history jsonb;
ALTER TABLE {consumer_attempts} ADD COLUMN history jsonb;

-- For groups, their newest letters, and lists of a group in either order; for lists of a
-- state; for lists since a time; for what has no fingerprint yet.
CREATE INDEX ON {dead_letters} (fingerprint, state, number);
CREATE INDEX ON {dead_letters} (state, number);
CREATE INDEX ON {dead_letters} (last_failed_at);
CREATE INDEX ON {dead_letters} (number) WHERE fingerprint = '';

-- What version 1 resolves is resolved.
CREATE FUNCTION {note_resolved}() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    NEW.state := 'resolved';
    RETURN NEW;
END
$body$;
CREATE TRIGGER note_resolved BEFORE UPDATE ON {dead_letters} FOR EACH ROW
    WHEN (NEW.resolved_at IS NOT NULL AND NEW.state = 'open') EXECUTE FUNCTION {note_resolved}();

-- How many letters of each group are open, and how many have arrived in each hour. Counters
-- would be hot rows just when everything fails; so each statement appends its differences
-- here, and they are added up from time to time. Without a key, because rows are never
-- looked for.
CREATE TABLE {dead_letter_changes} (
    fingerprint text COLLATE "C" NOT NULL,
    hour        timestamptz NOT NULL, -- when it begins, in UTC
    open        integer NOT NULL,
    arrived     integer NOT NULL
) WITH (
    -- It empties all the time.
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_insert_threshold = -1
);

-- The sums of the changes that are gone. Open letters are counted in the row with the hour
-- 'epoch', arrivals in those of the last hours.
CREATE TABLE {dead_letter_sums} (
    fingerprint text COLLATE "C" NOT NULL,
    hour        timestamptz NOT NULL,
    open        bigint NOT NULL DEFAULT 0,
    arrived     bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (fingerprint, hour)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- It runs as its owner: a role that was given the tables of version 1 may write letters.
CREATE FUNCTION {count_letters}() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO {dead_letter_changes} (fingerprint, hour, open, arrived)
        SELECT fingerprint, date_trunc('hour', last_failed_at, 'UTC'),
               count(*) FILTER (WHERE state = 'open' AND requeued_at IS NULL), count(*)
          FROM added GROUP BY 1, 2;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO {dead_letter_changes} (fingerprint, hour, open, arrived)
        SELECT fingerprint, timestamptz 'epoch', -count(*), 0
          FROM removed WHERE state = 'open' AND requeued_at IS NULL GROUP BY 1;
    ELSE
        INSERT INTO {dead_letter_changes} (fingerprint, hour, open, arrived)
        SELECT c.fingerprint, date_trunc('hour', c.last_failed_at, 'UTC'),
               coalesce(sum(c.n) FILTER (WHERE c.state = 'open' AND c.requeued_at IS NULL), 0), sum(c.n)
          FROM (SELECT fingerprint, last_failed_at, state, requeued_at, 1 AS n FROM added
                UNION ALL
                SELECT fingerprint, last_failed_at, state, requeued_at, -1 FROM removed) c
         GROUP BY 1, 2
        HAVING sum(c.n) <> 0 OR sum(c.n) FILTER (WHERE c.state = 'open' AND c.requeued_at IS NULL) <> 0;
    END IF;
    RETURN NULL;
END
$body$;
CREATE TRIGGER count_added AFTER INSERT ON {dead_letters}
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION {count_letters}();
CREATE TRIGGER count_removed AFTER DELETE ON {dead_letters}
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION {count_letters}();
CREATE TRIGGER count_changed AFTER UPDATE ON {dead_letters}
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION {count_letters}();

INSERT INTO {dead_letter_changes} (fingerprint, hour, open, arrived)
SELECT fingerprint, date_trunc('hour', last_failed_at, 'UTC'), count(*) FILTER (WHERE state = 'open' AND requeued_at IS NULL), count(*)
  FROM {dead_letters} GROUP BY 1, 2;

-- A history with one more attempt; the second one makes room if it is full. Times are
-- microseconds since 1970.
CREATE FUNCTION {with_attempt}(history jsonb, node text, took bigint, error text) RETURNS jsonb LANGUAGE sql VOLATILE AS $body$
    SELECT CASE WHEN jsonb_array_length($1) >= 20 THEN $1 - 1 ELSE coalesce($1, '[]') END
        || jsonb_build_object('at', (extract(epoch FROM {clock}()) * 1000000)::bigint, 'node', $2, 'took', $3, 'error', $4)
$body$;

-- Who has changed what, and why. letter and replay are numbers, 0 for none.
CREATE TABLE {audit_log} (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL DEFAULT {clock}(),
    action     text COLLATE "C" NOT NULL,
    actor      text COLLATE "C" NOT NULL,
    why        text NOT NULL DEFAULT '',
    letter     bigint NOT NULL DEFAULT 0,
    message_id text COLLATE "C" NOT NULL DEFAULT '',
    replay     bigint NOT NULL DEFAULT 0,
    detail     text NOT NULL DEFAULT ''
);
CREATE INDEX ON {audit_log} (action, number);
CREATE INDEX ON {audit_log} (actor, number);
CREATE INDEX ON {audit_log} (letter, number);
CREATE INDEX ON {audit_log} (message_id, number);
CREATE INDEX ON {audit_log} (replay, number);

-- As before, but for letters that were discarded.
CREATE OR REPLACE VIEW {messages} AS
    SELECT id, CASE WHEN deliver_at > {clock}() THEN 'Scheduled' ELSE 'Pending' END AS status,
           topic, direct, '' AS destination, CASE WHEN type = '' THEN topic ELSE type END AS type, source, tenant, key,
           correlation_id, 0 AS attempts, '' AS error, enqueued_at, deliver_at AS due_at, NULL::timestamptz AS published_at
      FROM {outbox}
    UNION ALL
    SELECT id, 'Waiting', topic, direct, destination, type, source, tenant, key,
           correlation_id, attempts, error, enqueued_at, due_at, NULL FROM {outbox_waiting}
    UNION ALL
    SELECT id, 'Scheduled', topic, direct, '', type, source, tenant, key,
           correlation_id, 0, '', enqueued_at, due_at, NULL FROM {scheduled}
    UNION ALL
    SELECT id, 'Published', topic, direct, destination, type, source, tenant, key,
           correlation_id, attempts, '', enqueued_at, NULL, published_at FROM {outbox_archive}
    UNION ALL
    SELECT id, CASE WHEN state = 'discarded' THEN 'Discarded' WHEN failed THEN 'Failed' ELSE 'Dead' END,
           topic, direct, destination, type, source, tenant, key,
           correlation_id, attempts, error, enqueued_at, requeued_at, NULL FROM {dead_letters} WHERE origin = 'relay';
