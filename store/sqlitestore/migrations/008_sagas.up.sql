-- Instances of sagas, and their logs.
INSERT INTO {schema_versions} (version, name) VALUES (8, '008_sagas');

--   version     rises by one with each change
--   definition  version of the saga that the instance runs on
--   data        JSON of the caller's, byte for byte
--   progress    JSON that the instance keeps for itself
--   ended_at    NULL until it has ended
CREATE TABLE {sagas} (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant     TEXT NOT NULL,
    saga       TEXT NOT NULL,
    key        TEXT NOT NULL,
    version    INTEGER NOT NULL,
    definition INTEGER NOT NULL,
    status     TEXT NOT NULL,
    state      TEXT NOT NULL,
    data       TEXT NOT NULL,
    progress   TEXT NOT NULL,
    error      TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    ended_at   INTEGER,
    UNIQUE (key, saga, tenant)
) STRICT;
CREATE INDEX {sagas_status} ON {sagas} (status, saga, number);
CREATE INDEX {sagas_ended} ON {sagas} (ended_at) WHERE ended_at IS NOT NULL;

-- The changes of an instance: number is the instance's, version the one that a change has led to.
-- They go with the instance.
CREATE TABLE {saga_log} (
    number       INTEGER NOT NULL,
    version      INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    message_id   TEXT NOT NULL,
    message_type TEXT NOT NULL,
    from_state   TEXT NOT NULL,
    to_state     TEXT NOT NULL,
    status       TEXT NOT NULL,
    definition   INTEGER NOT NULL,
    node         TEXT NOT NULL,
    note         TEXT NOT NULL,
    PRIMARY KEY (number, version)
) STRICT, WITHOUT ROWID;
