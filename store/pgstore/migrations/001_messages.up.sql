-- The tables of outbox, relay, inbox and consumer. State is which table a row is in.
-- {schema}, {outbox} and so on are replaced by quoted names before this file is run.

CREATE SCHEMA IF NOT EXISTS {schema};

-- Which steps were applied. Each notes itself, so that it may also be run by hand.
CREATE TABLE {schema_versions} (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO {schema_versions} (version, name) VALUES (1, '001_messages');

-- The one clock that decides what is due, leased or expired. Tests replace it.
CREATE FUNCTION {clock}() RETURNS timestamptz
    LANGUAGE sql VOLATILE AS 'SELECT clock_timestamp()';

-- The two functions below are PL/pgSQL because PostgreSQL parses the expressions of a table
-- again for each INSERT, node by node, but keeps the plan of a function: that takes a third
-- off an INSERT of one row.

-- The lane of a message: the first byte of SHA-256 of the key (of the id where there is
-- none), modulo 64. Frozen: a golden test holds it. Backslashes are doubled because bytea
-- input would read them as escapes.
CREATE FUNCTION {lane}(key text, id text) RETURNS smallint
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $body$
BEGIN
    RETURN get_byte(sha256(replace(CASE WHEN key = '' THEN id ELSE key END, '\', '\\')::bytea), 0) & 63;
END $body$;

-- Refuses what no reader could make good; the rest of the limits is judged by the relay.
CREATE FUNCTION {storable}(
    id text, topic text, key text, payload text, payload_bytes bytea,
    happened_at timestamptz, deliver_at timestamptz, expires_at timestamptz, enqueued_at timestamptz
) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $body$
BEGIN
    IF id <> '' AND octet_length(id) <= 255 AND octet_length(topic) <= 249 AND octet_length(key) <= 255
       AND (payload IS NULL OR payload_bytes IS NULL)
       AND (happened_at IS NULL OR isfinite(happened_at)) AND (deliver_at IS NULL OR isfinite(deliver_at))
       AND (expires_at IS NULL OR isfinite(expires_at)) AND isfinite(enqueued_at) THEN
        RETURN true;
    END IF;
    RAISE check_violation USING CONSTRAINT = 'outbox_storable', MESSAGE =
        CASE WHEN id = '' THEN 'id is empty'
             WHEN octet_length(id) > 255 THEN 'id is longer than 255 bytes'
             WHEN octet_length(topic) > 249 THEN 'topic is longer than 249 bytes'
             WHEN octet_length(key) > 255 THEN 'key is longer than 255 bytes'
             WHEN payload IS NOT NULL AND payload_bytes IS NOT NULL THEN 'payload and payload_bytes are both set'
             ELSE 'time, deliver_at, expires_at or enqueued_at is infinite' END;
END $body$;

-- Committed, ready to be sent, never tried.
--   position  order of the enqueue; cache 1, because sessions that cache numbers hand them
--             out in an order that has nothing to do with time
--   payload   text, so that a plain INSERT keeps a JSON text byte for byte;
--             payload_bytes is for everything else. One of the two.
CREATE TABLE {outbox} (
    position        bigint GENERATED ALWAYS AS IDENTITY (CACHE 1),
    lane            smallint GENERATED ALWAYS AS ({lane}(key, id)) STORED,
    id              text COLLATE "C" NOT NULL DEFAULT gen_random_uuid()::text,
    topic           text COLLATE "C" NOT NULL,
    direct          boolean NOT NULL DEFAULT false,
    key             text COLLATE "C" NOT NULL DEFAULT '',
    type            text NOT NULL DEFAULT '',
    source          text NOT NULL DEFAULT '',
    tenant          text NOT NULL DEFAULT 'default',
    subject         text NOT NULL DEFAULT '',
    payload         text,
    payload_bytes   bytea,
    content_type    text NOT NULL DEFAULT 'application/json',
    data_schema     text NOT NULL DEFAULT '',
    headers         jsonb,
    correlation_id  text NOT NULL DEFAULT '',
    causation_id    text NOT NULL DEFAULT '',
    idempotency_key text NOT NULL DEFAULT '',
    trace_parent    text NOT NULL DEFAULT '',
    trace_state     text NOT NULL DEFAULT '',
    time            timestamptz,
    deliver_at      timestamptz,
    expires_at      timestamptz,
    enqueued_at     timestamptz NOT NULL DEFAULT {clock}(),
    PRIMARY KEY (lane, position),
    UNIQUE (id),
    CONSTRAINT outbox_storable CHECK (
        {storable}(id, topic, key, payload, payload_bytes, time, deliver_at, expires_at, enqueued_at))
) WITH (
    -- The table empties all the time: vacuum by a count of dead rows, not by a share of
    -- however many rows there happen to be; and without pauses, because claims walk the index
    -- entries of dead rows until then. What is stored apart (TOAST) follows these settings.
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_cost_delay = 0,
    -- A backlog that grows is about to be deleted: rows that were only inserted are no reason
    -- for a vacuum.
    autovacuum_vacuum_insert_threshold = -1
    -- No fillfactor: rows are never updated.
);

-- Whether relays sleep: the time, in seconds since 1970, until which writers are to notify
-- them. A sequence, because its value is seen at once, by every snapshot, and costs a writer
-- a microsecond; a row costs ten. 0, the first value, is a time long past.
CREATE SEQUENCE {wakeups} MINVALUE 0 START 0;
GRANT SELECT ON SEQUENCE {wakeups} TO PUBLIC;

-- Wakes sleeping relays when the transaction commits. Many commits that notify at once wait
-- for each other; so relays that are woken too often take their announcement back. It runs
-- after the rows have their positions: a relay that announces itself later still sees the
-- lock on their sequence.
CREATE FUNCTION {wake_relays}() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    IF pg_catalog.pg_sequence_last_value({wakeups_text}::pg_catalog.regclass)
       > pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) THEN
        PERFORM pg_catalog.pg_notify('{channel}', '');
    END IF;
    RETURN NULL;
END
$body$;
CREATE TRIGGER wake_relays AFTER INSERT ON {outbox} FOR EACH STATEMENT EXECUTE FUNCTION {wake_relays}();

-- The tables below take the columns of a message from the outbox, without its defaults.

-- What may not go now, position kept. due_at is set for the head of each blocked
-- (destination, topic, key), for messages without a key, and for those that wait alone, for
-- which nothing waits. Rows without it follow a head, or a dead letter that parks the key.
CREATE TABLE {outbox_waiting} (
    LIKE {outbox},
    destination     text COLLATE "C" NOT NULL DEFAULT '',
    alone           boolean NOT NULL DEFAULT false,
    due_at          timestamptz,
    attempts        integer NOT NULL DEFAULT 0,
    life            integer NOT NULL DEFAULT 0,
    error           text NOT NULL DEFAULT '',
    first_failed_at timestamptz,
    letter          bigint, -- the dead letter that it was requeued from
    PRIMARY KEY (position, destination),
    UNIQUE (id, destination)
) WITH (
    -- As above; claims look here first, so sooner. No fillfactor: updates change due_at, which
    -- is indexed, so they need new index entries however much room a page has.
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX ON {outbox_waiting} (lane, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX ON {outbox_waiting} (topic, key, destination, position) WHERE key <> '' AND NOT alone;

-- Published, kept for the retention. By day, so that a day is dropped whole. The id is not
-- unique here. Few indexes: each costs the relay. The days are made by the relay, which also
-- sets their storage parameters, because they inherit none.
CREATE TABLE {outbox_archive} (
    LIKE {outbox},
    destination     text COLLATE "C" NOT NULL DEFAULT '',
    attempts        integer NOT NULL DEFAULT 0,
    life            integer NOT NULL DEFAULT 0,
    published_at    timestamptz NOT NULL,
    PRIMARY KEY (published_at, position, destination)
) PARTITION BY RANGE (published_at);
-- Catches what comes when no day's partition was made in time.
CREATE TABLE {outbox_archive_rest} PARTITION OF {outbox_archive} DEFAULT;

-- Ids enqueued with the option Unique, for the outbox retention.
CREATE TABLE {outbox_ids} (
    id          text COLLATE "C" PRIMARY KEY,
    enqueued_at timestamptz NOT NULL DEFAULT {clock}()
);
CREATE INDEX ON {outbox_ids} (enqueued_at);

-- Due in the future.
CREATE TABLE {scheduled} (
    LIKE {outbox},
    due_at          timestamptz NOT NULL,
    PRIMARY KEY (position)
);
CREATE INDEX ON {scheduled} (due_at);

-- Dead-lettered by relay or consumer. position and lane are a relay's; alias and message_key
-- are, with tenant, consumer and source, the inbox key of a consumer's. A relay's letter that
-- parks keeps what comes after it in its (destination, topic, key) waiting.
CREATE TABLE {dead_letters} (
    LIKE {outbox},
    number          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    origin          text NOT NULL CHECK (origin IN ('relay', 'consumer')),
    destination     text COLLATE "C" NOT NULL DEFAULT '',
    consumer        text COLLATE "C" NOT NULL DEFAULT '',
    alias           text COLLATE "C" NOT NULL DEFAULT '',
    message_key     text COLLATE "C" NOT NULL DEFAULT '',
    reason          text NOT NULL,
    error           text NOT NULL,
    attempts        integer NOT NULL,
    life            integer NOT NULL DEFAULT 0,
    failed          boolean NOT NULL DEFAULT false,
    parks           boolean NOT NULL DEFAULT false,
    requeued_at     timestamptz,
    resolved_at     timestamptz,
    resolution      text NOT NULL DEFAULT '',
    first_failed_at timestamptz NOT NULL,
    last_failed_at  timestamptz NOT NULL
);
ALTER TABLE {dead_letters} ALTER COLUMN position DROP NOT NULL, ALTER COLUMN lane DROP NOT NULL;
CREATE INDEX ON {dead_letters} (consumer, number) WHERE requeued_at IS NOT NULL;
CREATE INDEX ON {dead_letters} (topic, key, destination, position) INCLUDE (lane) WHERE parks;
CREATE INDEX ON {dead_letters} (id);

-- Processed, or dead, per consumer. The primary key is the gate.
CREATE TABLE {inbox} (
    tenant       text COLLATE "C" NOT NULL,
    consumer     text COLLATE "C" NOT NULL,
    source       text COLLATE "C" NOT NULL,
    alias        text COLLATE "C" NOT NULL,
    message_key  text COLLATE "C" NOT NULL,
    message_id   text COLLATE "C" NOT NULL,
    type         text COLLATE "C" NOT NULL,
    dead         boolean NOT NULL DEFAULT false,
    processed_at timestamptz NOT NULL DEFAULT {clock}(),
    payload_hash text,
    extra_data   jsonb,
    PRIMARY KEY (tenant, consumer, source, alias, message_key)
) WITH (
    -- It holds a week or more: the usual fifth of that would be days of dead rows.
    autovacuum_vacuum_scale_factor = 0.02
);
CREATE INDEX ON {inbox} (tenant, type);
CREATE INDEX ON {inbox} (processed_at);

-- Failed attempts of consumers.
CREATE TABLE {consumer_attempts} (
    tenant      text COLLATE "C" NOT NULL,
    consumer    text COLLATE "C" NOT NULL,
    source      text COLLATE "C" NOT NULL,
    alias       text COLLATE "C" NOT NULL,
    message_key text COLLATE "C" NOT NULL,
    attempts    integer NOT NULL,
    due_at      timestamptz NOT NULL,
    error       text NOT NULL,
    updated_at  timestamptz NOT NULL,
    first_failed_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, consumer, source, alias, message_key)
);

-- Who is alive, and who owns which lane. The epoch rises each time a lane changes hands. No
-- storage parameters: updates touch no indexed column, and on so few pages each finds the room
-- that the last ones left (HOT), also with filled pages.
CREATE TABLE {relays} (
    node       text PRIMARY KEY,
    started_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE TABLE {relay_lanes} (
    lane  smallint PRIMARY KEY,
    epoch bigint NOT NULL DEFAULT 0,
    owner text,
    since timestamptz
);
INSERT INTO {relay_lanes} (lane) SELECT generate_series(0, 63);

-- Where every message is.
CREATE VIEW {messages} AS
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
    SELECT id, CASE WHEN failed THEN 'Failed' ELSE 'Dead' END, topic, direct, destination, type, source, tenant, key,
           correlation_id, attempts, error, enqueued_at, requeued_at, NULL FROM {dead_letters} WHERE origin = 'relay';

-- Enqueues one message: SELECT {enqueue}('orders', '{"id":1}'). Returns its id. An id that
-- is pending already stores nothing.
CREATE FUNCTION {enqueue}(
    topic text, payload text, type text DEFAULT '', key text DEFAULT '', headers jsonb DEFAULT NULL,
    id text DEFAULT NULL, tenant text DEFAULT 'default', subject text DEFAULT '',
    content_type text DEFAULT 'application/json', direct boolean DEFAULT false,
    correlation_id text DEFAULT '', causation_id text DEFAULT '', idempotency_key text DEFAULT '',
    deliver_at timestamptz DEFAULT NULL, expires_at timestamptz DEFAULT NULL, payload_bytes bytea DEFAULT NULL
) RETURNS text LANGUAGE sql VOLATILE AS $body$
    WITH given AS (SELECT coalesce($6, gen_random_uuid()::text) AS id),
    added AS (
        INSERT INTO {outbox} (id, topic, payload, type, key, headers, tenant, subject, content_type, direct,
                              correlation_id, causation_id, idempotency_key, deliver_at, expires_at, payload_bytes)
        SELECT g.id, $1, $2, $3, $4, $5, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16 FROM given g
         WHERE NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = g.id)
        ON CONFLICT (id) DO NOTHING
    )
    SELECT id FROM given
$body$;
