-- What HTTP handlers have answered, for clients that repeat a request by its idempotency key.
INSERT INTO {schema_versions} (version, name) VALUES (12, '012_responses');

CREATE TABLE {idempotency_responses} (
    key        TEXT PRIMARY KEY,
    response   BLOB NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

-- For the janitor.
CREATE INDEX {idempotency_responses_expiry} ON {idempotency_responses} (expires_at);
