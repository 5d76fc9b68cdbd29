-- Instances of sagas, and their logs.

--   version     rises by one with each change
--   definition  version of the saga that the instance runs on
--   data        JSON of the caller's, byte for byte
--   progress    JSON that the instance keeps for itself
--   ended_at    NULL until it has ended
--   repeats     how often somebody wanted to start it again
CREATE TABLE IF NOT EXISTS {sagas} (
    number     BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    tenant     VARBINARY(65) NOT NULL,
    saga       VARBINARY(256) NOT NULL,
    {key}      VARBINARY(256) NOT NULL,
    version    BIGINT NOT NULL,
    definition INT NOT NULL,
    status     VARBINARY(20) NOT NULL,
    state      VARBINARY(256) NOT NULL,
    data       LONGTEXT NOT NULL,
    progress   LONGTEXT NOT NULL,
    error      TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    ended_at   BIGINT,
    repeats    INT NOT NULL DEFAULT 0,
    UNIQUE KEY by_key ({key}, saga, tenant),
    KEY by_status (status, saga, number),
    KEY by_time (ended_at)
) {table};

-- The changes of an instance: number is the instance's, version the one that a change has led to.
-- They go with the instance.
CREATE TABLE IF NOT EXISTS {saga_log} (
    number       BIGINT NOT NULL,
    version      BIGINT NOT NULL,
    at           BIGINT NOT NULL,
    message_id   VARBINARY(256) NOT NULL,
    message_type VARBINARY(256) NOT NULL,
    from_state   VARBINARY(256) NOT NULL,
    to_state     VARBINARY(256) NOT NULL,
    status       VARBINARY(20) NOT NULL,
    definition   INT NOT NULL,
    node         VARBINARY(256) NOT NULL,
    note         TEXT NOT NULL,
    PRIMARY KEY (number, version)
) {table};

INSERT INTO {locks} (name) VALUES ('sagas') ON DUPLICATE KEY UPDATE name = name;
INSERT INTO {schema_versions} (version, name) VALUES (4, '004_sagas') ON DUPLICATE KEY UPDATE name = name;
