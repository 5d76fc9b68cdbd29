-- Keys of the lease contract, which are processed once by whoever has leased them.
INSERT INTO {schema_versions} (version, name) VALUES (6, '006_leases');

--   lease_id      of the latest lease; token is its number
--   attempts      those that count, the latest one included
--   max_attempts  how many its owner allows, 0 for any number
--   lease_until   when it ends or has ended; NULL once it is released or the key is processed
CREATE TABLE {inbox_leases} (
    key          text COLLATE "C" PRIMARY KEY,
    lease_id     text COLLATE "C" NOT NULL,
    owner        text NOT NULL,
    token        bigint NOT NULL,
    attempts     integer NOT NULL,
    max_attempts integer NOT NULL,
    processed    boolean NOT NULL DEFAULT false,
    first_seen   timestamptz NOT NULL,
    last_seen    timestamptz NOT NULL,
    lease_until  timestamptz
) WITH (
    -- Room for the row as it is after its lease, on the same page: no index holds what changes.
    fillfactor = 70,
    -- It holds a week or more: the usual fifth of that would be days of dead rows.
    autovacuum_vacuum_scale_factor = 0.02
);

-- For the janitor. What was last seen long ago was first seen long ago.
CREATE INDEX ON {inbox_leases} (first_seen);
