-- Instances of sagas, and their logs. Programs of earlier versions go on while this is applied and
-- after it.
INSERT INTO {schema_versions} (version, name) VALUES (9, '009_sagas');

--   version     rises by one with each change
--   definition  version of the saga that the instance runs on
--   data        JSON of the caller's, byte for byte
--   progress    JSON that the instance keeps for itself
--   ended_at    NULL until it has ended
CREATE TABLE {sagas} (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant     text COLLATE "C" NOT NULL,
    saga       text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    definition integer NOT NULL,
    status     text COLLATE "C" NOT NULL, -- without a CHECK, which each change would pay for: nobody else writes it
    state      text NOT NULL,
    data       text NOT NULL,
    progress   text NOT NULL,
    error      text NOT NULL,
    started_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    ended_at   timestamptz,
    -- A key is looked for with or without the rest.
    UNIQUE (key, saga, tenant)
) WITH (
    -- Room for the row as it is after a change, on the same page: while an instance has one status no
    -- index holds what changes.
    fillfactor = 80
);

-- For lists, and for counts, which need not read the rows of what has ended.
CREATE INDEX ON {sagas} (status, saga, number);

-- For the janitor.
CREATE INDEX ON {sagas} (ended_at) WHERE ended_at IS NOT NULL;

-- The changes of an instance: number is the instance's, version the one that a change has led to.
-- They go with the instance; there is no foreign key, which each change would pay for.
CREATE TABLE {saga_log} (
    number       bigint NOT NULL,
    version      bigint NOT NULL,
    at           timestamptz NOT NULL,
    message_id   text NOT NULL,
    message_type text NOT NULL,
    from_state   text NOT NULL,
    to_state     text NOT NULL,
    status       text NOT NULL,
    definition   integer NOT NULL,
    node         text NOT NULL,
    note         text NOT NULL,
    PRIMARY KEY (number, version)
);
