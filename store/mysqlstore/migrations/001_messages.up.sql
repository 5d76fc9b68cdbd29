-- The tables of outbox, relay, inbox and consumer. State is which table a row is in. Times
-- are microseconds since 1970, UTC.
--
-- What is compared is kept as bytes (VARBINARY): no collation takes "a" for "A", or "a " for
-- "a", on MySQL and MariaDB alike. Columns that other programs fill have room for a byte more
-- than is allowed, so that a check refuses what a session without strict mode would cut.
--
-- Each CREATE ends the transaction that it is in: whatever interrupts this file, it can be run
-- again.

-- Which steps were applied. Each notes itself, so that it may also be run by hand.
CREATE TABLE IF NOT EXISTS {schema_versions} (
    version    INT NOT NULL PRIMARY KEY,
    name       VARCHAR(100) NOT NULL,
    applied_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) {table};

-- One row: how far tests have moved the clock.
CREATE TABLE IF NOT EXISTS {settings} (
    only            TINYINT NOT NULL PRIMARY KEY CHECK (only = 1),
    clock_offset_us BIGINT NOT NULL DEFAULT 0
) {table};
INSERT INTO {settings} (only) VALUES (1) ON DUPLICATE KEY UPDATE only = only;

-- A row for each job that one program does at a time: who has locked it does the job.
CREATE TABLE IF NOT EXISTS {locks} (
    name VARBINARY(40) NOT NULL PRIMARY KEY
) {table};
INSERT INTO {locks} (name)
VALUES ('lanes'), ('fold'), ('outbox_archive'), ('inbox'), ('inbox_leases'), ('consumer_attempts'), ('dead_letters'), ('audit_log')
ON DUPLICATE KEY UPDATE name = name;

-- Committed, ready to be sent, never tried.
--   position  order of the enqueue
--   lane      the first byte of SHA-256 of the key (of the id where there is none), modulo 64;
--             frozen: a golden test holds it
--   payload   text; payload_bytes is for everything else. One of the two.
--   repeats   how often the id was enqueued again by transactions that ran at the same time
CREATE TABLE IF NOT EXISTS {outbox} (
    position        BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    id              VARBINARY(256) NOT NULL DEFAULT (UUID()),
    topic           VARBINARY(250) NOT NULL,
    direct          TINYINT NOT NULL DEFAULT 0,
    `key`           VARBINARY(256) NOT NULL DEFAULT '',
    type            VARBINARY(256) NOT NULL DEFAULT '',
    source          VARBINARY(256) NOT NULL DEFAULT '',
    tenant          VARBINARY(65) NOT NULL DEFAULT 'default',
    subject         VARBINARY(256) NOT NULL DEFAULT '',
    payload         LONGTEXT,
    payload_bytes   LONGBLOB,
    content_type    VARBINARY(1025) NOT NULL DEFAULT 'application/json',
    data_schema     VARBINARY(1025) NOT NULL DEFAULT '',
    headers         MEDIUMTEXT,
    correlation_id  VARBINARY(256) NOT NULL DEFAULT '',
    causation_id    VARBINARY(256) NOT NULL DEFAULT '',
    idempotency_key VARBINARY(256) NOT NULL DEFAULT '',
    trace_parent    VARBINARY(513) NOT NULL DEFAULT '',
    trace_state     VARBINARY(513) NOT NULL DEFAULT '',
    time            BIGINT,
    deliver_at      BIGINT,
    expires_at      BIGINT,
    enqueued_at     BIGINT NOT NULL DEFAULT (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))),
    repeats         INT NOT NULL DEFAULT 0,
    lane            TINYINT AS (ASCII(UNHEX(SHA2(CASE WHEN `key` = '' THEN id ELSE `key` END, 256))) & 63) STORED,
    UNIQUE KEY by_id (id),
    KEY by_lane (lane, position),
    CHECK (payload IS NULL OR payload_bytes IS NULL),
    CHECK (id <> '' AND LENGTH(id) <= 255 AND LENGTH(topic) <= 249 AND LENGTH(`key`) <= 255),
    CHECK (direct IN (0, 1))
) {table};

-- What may not go now, position kept. due_at is set for the head of each blocked
-- (destination, topic, key), for messages without a key, and for those that wait alone, for
-- which nothing waits. Rows without it follow a head, or a dead letter that parks the key.
CREATE TABLE IF NOT EXISTS {outbox_waiting} (
    position        BIGINT NOT NULL,
    lane            TINYINT NOT NULL,
    {columns},
    destination     VARBINARY(255) NOT NULL DEFAULT '',
    alone           TINYINT NOT NULL DEFAULT 0,
    due_at          BIGINT,
    attempts        INT NOT NULL DEFAULT 0,
    life            INT NOT NULL DEFAULT 0,
    error           TEXT NOT NULL DEFAULT (''),
    first_failed_at BIGINT,
    history         LONGTEXT, -- failed attempts, a JSON array: the first one and the last ones, 20 at most
    letter          BIGINT, -- the dead letter that it was requeued from
    replay          BIGINT NOT NULL DEFAULT 0, -- the bulk replay that requeued it, 0 if none did
    PRIMARY KEY (position, destination),
    UNIQUE KEY by_id (id, destination),
    KEY by_due (due_at, lane, destination),
    KEY by_unit (topic, `key`, destination, position)
) {table};

-- Published, kept for the retention. The id is not unique here.
CREATE TABLE IF NOT EXISTS {outbox_archive} (
    position        BIGINT NOT NULL,
    {columns},
    destination     VARBINARY(255) NOT NULL DEFAULT '',
    attempts        INT NOT NULL DEFAULT 0,
    life            INT NOT NULL DEFAULT 0,
    published_at    BIGINT NOT NULL,
    PRIMARY KEY (published_at, position, destination),
    KEY by_time (published_at),
    KEY by_id (id)
) {table};

-- Ids enqueued with the option Unique, for the outbox retention.
CREATE TABLE IF NOT EXISTS {outbox_ids} (
    id          VARBINARY(255) NOT NULL PRIMARY KEY,
    enqueued_at BIGINT NOT NULL,
    repeats     INT NOT NULL DEFAULT 0,
    KEY by_time (enqueued_at)
) {table};

-- Due in the future.
CREATE TABLE IF NOT EXISTS {scheduled} (
    position        BIGINT NOT NULL PRIMARY KEY,
    {columns},
    due_at          BIGINT NOT NULL,
    KEY by_due (due_at),
    KEY by_id (id)
) {table};

-- Dead-lettered by relay or consumer. position and lane are a relay's; alias and message_key are,
-- with tenant, consumer and source, the inbox key of a consumer's. A relay's letter that parks
-- keeps what comes after it in its (destination, topic, key) waiting. fingerprint names the
-- group of letters that fail alike.
CREATE TABLE IF NOT EXISTS {dead_letters} (
    number          BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    position        BIGINT,
    lane            TINYINT,
    {columns},
    origin          VARBINARY(16) NOT NULL CHECK (origin IN ('relay', 'consumer')),
    state           VARBINARY(16) NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'resolved', 'discarded')),
    destination     VARBINARY(255) NOT NULL DEFAULT '',
    consumer        VARBINARY(255) NOT NULL DEFAULT '',
    alias           VARBINARY(255) NOT NULL DEFAULT '',
    message_key     VARBINARY(255) NOT NULL DEFAULT '',
    fingerprint     VARBINARY(64) NOT NULL DEFAULT '',
    reason          VARBINARY(64) NOT NULL,
    error           TEXT NOT NULL DEFAULT (''),
    attempts        INT NOT NULL,
    life            INT NOT NULL DEFAULT 0,
    failed          TINYINT NOT NULL DEFAULT 0,
    parks           TINYINT NOT NULL DEFAULT 0,
    replay          BIGINT NOT NULL DEFAULT 0,
    requeued_at     BIGINT,
    resolved_at     BIGINT,
    resolution      TEXT NOT NULL DEFAULT (''),
    first_failed_at BIGINT NOT NULL,
    last_failed_at  BIGINT NOT NULL,
    history         LONGTEXT,
    KEY by_consumer (consumer, requeued_at, number),
    KEY by_unit (parks, topic, `key`, destination, position),
    KEY by_id (id),
    KEY by_group (fingerprint, state, number),
    KEY by_state (state, number),
    KEY by_failure (last_failed_at),
    KEY by_replay (replay)
) {table};

-- Processed, or dead, per consumer. The primary key is the gate; repeats are the deliveries
-- that it turned away.
CREATE TABLE IF NOT EXISTS {inbox} (
    tenant       VARBINARY(255) NOT NULL,
    consumer     VARBINARY(255) NOT NULL,
    source       VARBINARY(255) NOT NULL,
    alias        VARBINARY(255) NOT NULL,
    message_key  VARBINARY(255) NOT NULL,
    message_id   VARBINARY(255) NOT NULL,
    type         VARBINARY(255) NOT NULL,
    dead         TINYINT NOT NULL DEFAULT 0,
    repeats      INT NOT NULL DEFAULT 0,
    processed_at BIGINT NOT NULL,
    payload_hash VARBINARY(255),
    extra_data   LONGTEXT,
    PRIMARY KEY (tenant, consumer, source, alias, message_key),
    KEY by_type (tenant, type),
    KEY by_time (processed_at)
) {table};

-- Keys of the lease contract, which are processed once by whoever has leased them.
--   lease_id      of the latest lease; token is its number
--   attempts      those that count, the latest one included
--   max_attempts  how many its owner allows, 0 for any number
--   lease_until   when it ends or has ended; NULL once it is released or the key is processed
CREATE TABLE IF NOT EXISTS {inbox_leases} (
    `key`        VARBINARY(512) NOT NULL PRIMARY KEY,
    lease_id     VARBINARY(64) NOT NULL,
    owner        VARBINARY(255) NOT NULL,
    token        BIGINT NOT NULL,
    attempts     INT NOT NULL,
    max_attempts INT NOT NULL,
    processed    TINYINT NOT NULL DEFAULT 0,
    first_seen   BIGINT NOT NULL,
    last_seen    BIGINT NOT NULL,
    lease_until  BIGINT,
    KEY by_time (first_seen)
) {table};

-- Failed attempts of consumers, and those that were begun and of whose end nobody knows.
CREATE TABLE IF NOT EXISTS {consumer_attempts} (
    tenant          VARBINARY(255) NOT NULL,
    consumer        VARBINARY(255) NOT NULL,
    source          VARBINARY(255) NOT NULL,
    alias           VARBINARY(255) NOT NULL,
    message_key     VARBINARY(255) NOT NULL,
    attempts        INT NOT NULL,
    starts          INT NOT NULL DEFAULT 0,
    due_at          BIGINT NOT NULL,
    error           TEXT NOT NULL DEFAULT (''),
    updated_at      BIGINT NOT NULL,
    first_failed_at BIGINT NOT NULL,
    history         LONGTEXT,
    PRIMARY KEY (tenant, consumer, source, alias, message_key),
    KEY by_time (due_at)
) {table};

-- Who is alive, and who owns which lane. The epoch rises each time a lane changes hands.
-- renewals makes each renewal a change, also one that comes in the same microsecond.
CREATE TABLE IF NOT EXISTS {relays} (
    node       VARBINARY(255) NOT NULL PRIMARY KEY,
    started_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    renewals   BIGINT NOT NULL DEFAULT 0
) {table};
CREATE TABLE IF NOT EXISTS {relay_lanes} (
    lane  TINYINT NOT NULL PRIMARY KEY,
    epoch BIGINT NOT NULL DEFAULT 0,
    owner VARBINARY(255),
    since BIGINT,
    KEY by_owner (owner)
) {table};
INSERT INTO {relay_lanes} (lane)
VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15),
       (16), (17), (18), (19), (20), (21), (22), (23), (24), (25), (26), (27), (28), (29), (30), (31),
       (32), (33), (34), (35), (36), (37), (38), (39), (40), (41), (42), (43), (44), (45), (46), (47),
       (48), (49), (50), (51), (52), (53), (54), (55), (56), (57), (58), (59), (60), (61), (62), (63)
ON DUPLICATE KEY UPDATE lane = lane;

-- Who has changed what, and why. letter and replay are numbers, 0 for none.
CREATE TABLE IF NOT EXISTS {audit_log} (
    number     BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    at         BIGINT NOT NULL,
    action     VARBINARY(64) NOT NULL,
    actor      VARBINARY(255) NOT NULL,
    why        TEXT NOT NULL DEFAULT (''),
    letter     BIGINT NOT NULL DEFAULT 0,
    message_id VARBINARY(255) NOT NULL DEFAULT '',
    replay     BIGINT NOT NULL DEFAULT 0,
    detail     TEXT NOT NULL DEFAULT (''),
    KEY by_time (at),
    KEY by_action (action, number),
    KEY by_actor (actor, number),
    KEY by_letter (letter, number),
    KEY by_message (message_id, number),
    KEY by_replay (replay, number)
) {table};

-- A replay looks at the letters that match its plan, a JSON object, by rising number: it has
-- passed those up to one, and ends with another one. So it needs no row for each letter.
CREATE TABLE IF NOT EXISTS {replays} (
    number     BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    state      VARBINARY(16) NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'stopped', 'cancelled')),
    plan       LONGTEXT NOT NULL,
    started_by VARBINARY(255) NOT NULL,
    why        TEXT NOT NULL DEFAULT (''),
    passed     BIGINT NOT NULL DEFAULT 0,
    upto       BIGINT NOT NULL,
    letters    BIGINT NOT NULL,
    requeued   BIGINT NOT NULL DEFAULT 0,
    skipped    BIGINT NOT NULL DEFAULT 0,
    problem    TEXT NOT NULL DEFAULT (''),
    started_at BIGINT NOT NULL,
    ended_at   BIGINT
) {table};

-- Where every message is, as text, for people. The program asks the tables.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW {messages} AS
    SELECT CONVERT(s.id USING utf8mb4) AS id, s.status, CONVERT(s.topic USING utf8mb4) AS topic, s.direct,
           CONVERT(s.destination USING utf8mb4) AS destination, CONVERT(s.type USING utf8mb4) AS type,
           CONVERT(s.source USING utf8mb4) AS source, CONVERT(s.tenant USING utf8mb4) AS tenant,
           CONVERT(s.`key` USING utf8mb4) AS `key`, CONVERT(s.correlation_id USING utf8mb4) AS correlation_id,
           s.attempts, s.error, s.enqueued_at, s.due_at, s.published_at
      FROM ({states}) s;
INSERT INTO {schema_versions} (version, name) VALUES (1, '001_messages') ON DUPLICATE KEY UPDATE name = name;
