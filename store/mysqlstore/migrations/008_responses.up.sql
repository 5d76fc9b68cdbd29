-- What HTTP handlers have answered, for clients that repeat a request by its idempotency key.
CREATE TABLE IF NOT EXISTS {idempotency_responses} (
    `key`      VARBINARY(512) NOT NULL PRIMARY KEY,
    response   LONGBLOB NOT NULL,
    expires_at BIGINT NOT NULL,
    KEY by_time (expires_at)
) {table};
INSERT INTO {locks} (name) VALUES ('idempotency_responses') ON DUPLICATE KEY UPDATE name = name;

INSERT INTO {schema_versions} (version, name) VALUES (8, '008_responses') ON DUPLICATE KEY UPDATE name = name;
