-- Ids are unique for each source and tenant. A constraint can't be changed: the tables are recreated.
-- Statements of earlier versions fail after this, so their programs are to be stopped before.
INSERT INTO {schema_versions} (version, name) VALUES (14, '014_identities');

DROP VIEW {messages};
CREATE TABLE {outbox_new} (
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
    UNIQUE (id, source, tenant),
    CONSTRAINT outbox_one_payload CHECK (payload IS NULL OR payload_bytes IS NULL),
    CONSTRAINT outbox_lengths CHECK (id <> '' AND length(CAST(id AS BLOB)) <= 255
        AND length(CAST(topic AS BLOB)) <= 249 AND length(CAST(key AS BLOB)) <= 255),
    CONSTRAINT outbox_direct CHECK (direct IN (0, 1))
) STRICT;
INSERT INTO {outbox_new} (position, {message}) SELECT position, {message} FROM {outbox} ORDER BY position;
-- Positions go on where they were, also of a table that is empty.
DELETE FROM sqlite_sequence WHERE name = {outbox_new_text};
INSERT INTO sqlite_sequence (name, seq) SELECT {outbox_new_text}, seq FROM sqlite_sequence WHERE name = {outbox_text};
DROP TABLE {outbox};
ALTER TABLE {outbox_new} RENAME TO {outbox};

CREATE TABLE {outbox_waiting_new} (
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
    history         TEXT,
    replay          INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (position, destination),
    UNIQUE (id, source, tenant, destination)
) STRICT;
INSERT INTO {outbox_waiting_new} (position, {message}, destination, alone, due_at, attempts, life, error, first_failed_at, letter, history, replay)
SELECT position, {message}, destination, alone, due_at, attempts, life, error, first_failed_at, letter, history, replay FROM {outbox_waiting};
DROP TABLE {outbox_waiting};
ALTER TABLE {outbox_waiting_new} RENAME TO {outbox_waiting};
CREATE INDEX {outbox_waiting_due} ON {outbox_waiting} (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX {outbox_waiting_unit} ON {outbox_waiting} (topic, key, destination, position) WHERE key <> '' AND NOT alone;

-- What was noted before has the empty tenant, and counts for every source and tenant.
CREATE TABLE {outbox_ids_new} (
    id          TEXT NOT NULL,
    source      TEXT NOT NULL DEFAULT '',
    tenant      TEXT NOT NULL DEFAULT '',
    enqueued_at INTEGER NOT NULL,
    PRIMARY KEY (id, source, tenant)
) STRICT, WITHOUT ROWID;
INSERT INTO {outbox_ids_new} (id, enqueued_at) SELECT id, enqueued_at FROM {outbox_ids};
DROP TABLE {outbox_ids};
ALTER TABLE {outbox_ids_new} RENAME TO {outbox_ids};

-- As before. The source that Migrate received must not make a second message of what is there.
CREATE TRIGGER {outbox_source} AFTER INSERT ON {outbox} WHEN new.source = ''
BEGIN SELECT RAISE(ABORT, 'UNIQUE constraint failed: id, source, tenant') FROM {outbox} o JOIN {settings} s ON o.source = s.source WHERE o.id = new.id AND o.tenant = new.tenant AND o.position <> new.position; UPDATE {outbox} SET source = (SELECT source FROM {settings}) WHERE position = new.position; END;
CREATE TRIGGER {outbox_position} BEFORE INSERT ON {outbox} WHEN new.position <> -1
BEGIN SELECT RAISE(ABORT, 'position is given by the database'); END;
CREATE TRIGGER {outbox_position_given} AFTER INSERT ON {outbox} WHEN new.position = -1
BEGIN SELECT RAISE(ABORT, 'position is given by the database'); END;
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
    SELECT id, CASE WHEN state = 'discarded' THEN 'Discarded' WHEN failed THEN 'Failed' ELSE 'Dead' END, topic, direct, destination,
           CASE WHEN type = '' THEN topic ELSE type END, source, tenant, key,
           correlation_id, attempts, error, enqueued_at, requeued_at, NULL FROM {dead_letters} WHERE origin = 'relay';
