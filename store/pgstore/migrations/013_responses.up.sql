-- What HTTP handlers have answered, for clients that repeat a request by its idempotency key.
INSERT INTO {schema_versions} (version, name) VALUES (13, '013_responses');

CREATE TABLE {idempotency_responses} (
    key        text COLLATE "C" PRIMARY KEY,
    response   bytea NOT NULL,
    expires_at timestamptz NOT NULL
);

-- For the janitor.
CREATE INDEX ON {idempotency_responses} (expires_at);
INSERT INTO {locks} (name) VALUES ('idempotency_responses');
