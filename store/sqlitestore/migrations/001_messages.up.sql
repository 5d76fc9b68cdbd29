-- The tables of outbox, relay, inbox and consumer. State is which table a row is in. Times
-- are microseconds since 1970, UTC.

-- Which steps were applied. Each notes itself, so that it may also be run by hand. The
-- program makes the table before: its transactions begin with a statement on it.
CREATE TABLE IF NOT EXISTS {schema_versions} (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    applied_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
INSERT INTO {schema_versions} (version, name) VALUES (1, '001_messages');

-- One row: how far tests have moved the clock, and the source of messages that name none.
CREATE TABLE {settings} (
    only            INTEGER PRIMARY KEY CHECK (only = 1),
    clock_offset_us INTEGER NOT NULL DEFAULT 0,
    source          TEXT NOT NULL DEFAULT ''
) STRICT;
INSERT INTO {settings} (only) VALUES (1);

-- Committed, ready to be sent, never tried.
--   position  order of the enqueue; AUTOINCREMENT, or it starts again when the table is empty
--   payload   text; payload_bytes is for everything else. One of the two.
CREATE TABLE {outbox} (
    position        INTEGER PRIMARY KEY AUTOINCREMENT,
    id              TEXT NOT NULL DEFAULT (lower(hex(randomblob(16)))),
    topic           TEXT NOT NULL,
    direct          INTEGER NOT NULL DEFAULT 0,
    key             TEXT NOT NULL DEFAULT '',
    type            TEXT NOT NULL DEFAULT '',
    source          TEXT NOT NULL DEFAULT '',
    tenant          TEXT NOT NULL DEFAULT 'default',
    subject         TEXT NOT NULL DEFAULT '',
    payload         TEXT,
    payload_bytes   BLOB,
    content_type    TEXT NOT NULL DEFAULT 'application/json',
    data_schema     TEXT NOT NULL DEFAULT '',
    headers         TEXT,
    correlation_id  TEXT NOT NULL DEFAULT '',
    causation_id    TEXT NOT NULL DEFAULT '',
    idempotency_key TEXT NOT NULL DEFAULT '',
    trace_parent    TEXT NOT NULL DEFAULT '',
    trace_state     TEXT NOT NULL DEFAULT '',
    time            INTEGER,
    deliver_at      INTEGER,
    expires_at      INTEGER,
    enqueued_at     INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000),
    UNIQUE (id),
    CONSTRAINT outbox_one_payload CHECK (payload IS NULL OR payload_bytes IS NULL),
    CONSTRAINT outbox_lengths CHECK (id <> '' AND length(CAST(id AS BLOB)) <= 255
        AND length(CAST(topic AS BLOB)) <= 249 AND length(CAST(key AS BLOB)) <= 255),
    CONSTRAINT outbox_direct CHECK (direct IN (0, 1))
) STRICT;

-- A default cannot be changed later, so the source that Migrate received comes in this way.
CREATE TRIGGER {outbox_source} AFTER INSERT ON {outbox} WHEN new.source = ''
BEGIN UPDATE {outbox} SET source = (SELECT source FROM {settings}) WHERE position = new.position; END;

-- What may not go now, position kept. due_at is set for the head of each blocked
-- (destination, topic, key), for messages without a key, and for those that wait alone, for
-- which nothing waits. Rows without it follow a head, or a dead letter that parks the key.
CREATE TABLE {outbox_waiting} (
    position        INTEGER NOT NULL,
    {columns},
    destination     TEXT NOT NULL DEFAULT '',
    alone           INTEGER NOT NULL DEFAULT 0,
    due_at          INTEGER,
    attempts        INTEGER NOT NULL DEFAULT 0,
    life            INTEGER NOT NULL DEFAULT 0,
    error           TEXT NOT NULL DEFAULT '',
    first_failed_at INTEGER,
    letter          INTEGER, -- the dead letter that it was requeued from
    PRIMARY KEY (position, destination),
    UNIQUE (id, destination)
) STRICT;
CREATE INDEX {outbox_waiting_due} ON {outbox_waiting} (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX {outbox_waiting_unit} ON {outbox_waiting} (topic, key, destination, position) WHERE key <> '' AND NOT alone;

-- Published, kept for the retention. The id is not unique here.
CREATE TABLE {outbox_archive} (
    position        INTEGER NOT NULL,
    {columns},
    destination     TEXT NOT NULL DEFAULT '',
    attempts        INTEGER NOT NULL DEFAULT 0,
    life            INTEGER NOT NULL DEFAULT 0,
    published_at    INTEGER NOT NULL,
    PRIMARY KEY (published_at, position, destination)
) STRICT;

-- Ids enqueued with the option Unique, for the outbox retention.
CREATE TABLE {outbox_ids} (
    id          TEXT PRIMARY KEY,
    enqueued_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Due in the future.
CREATE TABLE {scheduled} (
    position        INTEGER PRIMARY KEY,
    {columns},
    due_at          INTEGER NOT NULL
) STRICT;
CREATE INDEX {scheduled_due} ON {scheduled} (due_at);

-- Dead-lettered by relay or consumer. position is a relay's; alias and message_key are, with
-- tenant, consumer and source, the inbox key of a consumer's. A relay's letter that parks
-- keeps what comes after it in its (destination, topic, key) waiting.
CREATE TABLE {dead_letters} (
    number          INTEGER PRIMARY KEY AUTOINCREMENT,
    position        INTEGER,
    {columns},
    origin          TEXT NOT NULL CHECK (origin IN ('relay', 'consumer')),
    destination     TEXT NOT NULL DEFAULT '',
    consumer        TEXT NOT NULL DEFAULT '',
    alias           TEXT NOT NULL DEFAULT '',
    message_key     TEXT NOT NULL DEFAULT '',
    reason          TEXT NOT NULL,
    error           TEXT NOT NULL,
    attempts        INTEGER NOT NULL,
    life            INTEGER NOT NULL DEFAULT 0,
    failed          INTEGER NOT NULL DEFAULT 0,
    parks           INTEGER NOT NULL DEFAULT 0,
    requeued_at     INTEGER,
    resolved_at     INTEGER,
    resolution      TEXT NOT NULL DEFAULT '',
    first_failed_at INTEGER NOT NULL,
    last_failed_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX {dead_letters_requeued} ON {dead_letters} (consumer, number) WHERE requeued_at IS NOT NULL;
CREATE INDEX {dead_letters_parks} ON {dead_letters} (topic, key, destination, position) WHERE parks;
CREATE INDEX {dead_letters_id} ON {dead_letters} (id);

-- Processed, or dead, per consumer. The primary key is the gate.
CREATE TABLE {inbox} (
    tenant       TEXT NOT NULL,
    consumer     TEXT NOT NULL,
    source       TEXT NOT NULL,
    alias        TEXT NOT NULL,
    message_key  TEXT NOT NULL,
    message_id   TEXT NOT NULL,
    type         TEXT NOT NULL,
    dead         INTEGER NOT NULL DEFAULT 0,
    processed_at INTEGER NOT NULL,
    payload_hash TEXT,
    extra_data   TEXT,
    PRIMARY KEY (tenant, consumer, source, alias, message_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX {inbox_type} ON {inbox} (tenant, type);
CREATE INDEX {inbox_processed} ON {inbox} (processed_at);

-- Failed attempts of consumers.
CREATE TABLE {consumer_attempts} (
    tenant          TEXT NOT NULL,
    consumer        TEXT NOT NULL,
    source          TEXT NOT NULL,
    alias           TEXT NOT NULL,
    message_key     TEXT NOT NULL,
    attempts        INTEGER NOT NULL,
    due_at          INTEGER NOT NULL,
    error           TEXT NOT NULL,
    updated_at      INTEGER NOT NULL,
    first_failed_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, consumer, source, alias, message_key)
) STRICT, WITHOUT ROWID;

-- Who is alive, and who owns the lane. The epoch rises each time it changes hands.
CREATE TABLE {relays} (
    node       TEXT PRIMARY KEY,
    started_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE {relay_lanes} (
    lane  INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL DEFAULT 0,
    owner TEXT,
    since INTEGER
) STRICT;
INSERT INTO {relay_lanes} (lane) VALUES (0);

-- Where every message is.
CREATE VIEW {messages} AS
    SELECT id, CASE WHEN deliver_at > {now} THEN 'Scheduled' ELSE 'Pending' END AS status,
           topic, direct, '' AS destination, CASE WHEN type = '' THEN topic ELSE type END AS type, source, tenant, key,
           correlation_id, 0 AS attempts, '' AS error, enqueued_at, deliver_at AS due_at, NULL AS published_at
      FROM {outbox}
    UNION ALL
    SELECT id, 'Waiting', topic, direct, destination, CASE WHEN type = '' THEN topic ELSE type END, source, tenant, key,
           correlation_id, attempts, error, enqueued_at, due_at, NULL FROM {outbox_waiting}
    UNION ALL
    SELECT id, 'Scheduled', topic, direct, '', CASE WHEN type = '' THEN topic ELSE type END, source, tenant, key,
           correlation_id, 0, '', enqueued_at, due_at, NULL FROM {scheduled}
    UNION ALL
    SELECT id, 'Published', topic, direct, destination, CASE WHEN type = '' THEN topic ELSE type END, source, tenant, key,
           correlation_id, attempts, '', enqueued_at, NULL, published_at FROM {outbox_archive}
    UNION ALL
    SELECT id, CASE WHEN failed THEN 'Failed' ELSE 'Dead' END, topic, direct, destination,
           CASE WHEN type = '' THEN topic ELSE type END, source, tenant, key,
           correlation_id, attempts, error, enqueued_at, requeued_at, NULL FROM {dead_letters} WHERE origin = 'relay';
