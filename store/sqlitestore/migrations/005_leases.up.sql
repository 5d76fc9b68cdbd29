-- Keys of the lease contract, which are processed once by whoever has leased them.
INSERT INTO {schema_versions} (version, name) VALUES (5, '005_leases');

--   lease_id      of the latest lease; token is its number
--   attempts      those that count, the latest one included
--   max_attempts  how many its owner allows, 0 for any number
--   lease_until   when it ends or has ended; NULL once it is released or the key is processed
CREATE TABLE {inbox_leases} (
    key          TEXT PRIMARY KEY,
    lease_id     TEXT NOT NULL,
    owner        TEXT NOT NULL,
    token        INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    processed    INTEGER NOT NULL DEFAULT 0,
    first_seen   INTEGER NOT NULL,
    last_seen    INTEGER NOT NULL,
    lease_until  INTEGER
) STRICT, WITHOUT ROWID;

-- For the janitor. What was last seen long ago was first seen long ago.
CREATE INDEX {inbox_leases_seen} ON {inbox_leases} (first_seen);
