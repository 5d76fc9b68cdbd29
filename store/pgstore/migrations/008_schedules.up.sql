-- Recurring schedules, and messages that are kept until a time under a token of the user's.
-- Relays of earlier versions go on while this is applied and after it.
INSERT INTO {schema_versions} (version, name) VALUES (8, '008_schedules');

-- The id of a message that was scheduled by itself, and may be cancelled or put off by it. NULL
-- for those that came through the outbox.
ALTER TABLE {scheduled} ADD COLUMN token text COLLATE "C" UNIQUE;

--   plan        a JSON object: when, and the message
--   next_at     planned time of the next occurrence; NULL if paused or ended
--   last_at     planned time of the latest one that was enqueued, and the id of its message
--   executions  that were enqueued
--   skipped     that were left out
CREATE TABLE {schedules} (
    name       text COLLATE "C" PRIMARY KEY,
    version    bigint NOT NULL,
    plan       text NOT NULL,
    paused     boolean NOT NULL,
    next_at    timestamptz,
    last_at    timestamptz,
    last_id    text COLLATE "C" NOT NULL,
    executions bigint NOT NULL,
    skipped    bigint NOT NULL
);
CREATE INDEX ON {schedules} (next_at, name) WHERE next_at IS NOT NULL;
