-- Recurring schedules, and messages that are kept until a time under a token of the user's.
INSERT INTO {schema_versions} (version, name) VALUES (7, '007_schedules');

-- The id of a message that was scheduled by itself, and may be cancelled or put off by it. NULL
-- for those that came through the outbox.
ALTER TABLE {scheduled} ADD COLUMN token TEXT;
CREATE UNIQUE INDEX {scheduled_token} ON {scheduled} (token);

--   plan        a JSON object: when, and the message
--   next_at     planned time of the next occurrence; NULL if paused or ended
--   last_at     planned time of the latest one that was enqueued, and the id of its message
--   executions  that were enqueued
--   skipped     that were left out
CREATE TABLE {schedules} (
    name       TEXT PRIMARY KEY,
    version    INTEGER NOT NULL,
    plan       TEXT NOT NULL,
    paused     INTEGER NOT NULL,
    next_at    INTEGER,
    last_at    INTEGER,
    last_id    TEXT NOT NULL,
    executions INTEGER NOT NULL,
    skipped    INTEGER NOT NULL
) STRICT;
CREATE INDEX {schedules_next} ON {schedules} (next_at, name) WHERE next_at IS NOT NULL;
