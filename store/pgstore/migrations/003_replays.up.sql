-- Bulk replays of dead letters. Relays and consumers of earlier versions go on while this is
-- applied and after it; what dies again in one of version 2 counts in no replay.

INSERT INTO {schema_versions} (version, name) VALUES (3, '003_replays');

-- In the order in which settlements take them.
LOCK TABLE {dead_letters}, {outbox_waiting};

-- replay is the number of the bulk replay that requeued the message last, 0 if that was none.
ALTER TABLE {outbox_waiting} ADD COLUMN replay bigint NOT NULL DEFAULT 0;
ALTER TABLE {dead_letters} ADD COLUMN replay bigint NOT NULL DEFAULT 0;

-- For what is dead again.
CREATE INDEX ON {dead_letters} (replay) WHERE replay <> 0 AND requeued_at IS NULL;

-- A replay looks at the letters that match its plan, a JSON object, by rising number: it has
-- passed those up to one, and ends with another one. So it needs no row for each letter.
CREATE TABLE {replays} (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state      text COLLATE "C" NOT NULL DEFAULT 'running'
               CONSTRAINT replays_state CHECK (state IN ('running', 'done', 'stopped', 'cancelled')),
    plan       text NOT NULL,
    started_by text NOT NULL,
    why        text NOT NULL,
    passed     bigint NOT NULL DEFAULT 0,
    upto       bigint NOT NULL,
    letters    bigint NOT NULL,
    requeued   bigint NOT NULL DEFAULT 0,
    skipped    bigint NOT NULL DEFAULT 0,
    problem    text NOT NULL DEFAULT '',
    started_at timestamptz NOT NULL DEFAULT {clock}(),
    ended_at   timestamptz
) WITH (
    -- A running one is changed ten times a second; no index holds what changes.
    fillfactor = 50
);
