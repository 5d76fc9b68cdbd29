-- Recurring schedules, and messages that are kept until a time under a token of the user's.

--   plan        a JSON object: when, and the message
--   next_at     planned time of the next occurrence; NULL if paused or ended
--   last_at     planned time of the latest one that was enqueued, and the id of its message
--   executions  that were enqueued
--   skipped     that were left out
--   repeats     how often somebody wanted to store it again
CREATE TABLE IF NOT EXISTS {schedules} (
    name       VARBINARY(200) NOT NULL PRIMARY KEY,
    version    BIGINT NOT NULL,
    plan       LONGTEXT NOT NULL,
    paused     TINYINT NOT NULL,
    next_at    BIGINT,
    last_at    BIGINT,
    last_id    VARBINARY(256) NOT NULL,
    executions BIGINT NOT NULL,
    skipped    BIGINT NOT NULL,
    repeats    BIGINT NOT NULL DEFAULT 0,
    KEY by_next (next_at, name)
) {table};

-- The id of a message that was scheduled by itself, and may be cancelled or put off by it. NULL
-- for those that came through the outbox. One statement, so that it is done as a whole.
ALTER TABLE {scheduled} ADD COLUMN token VARBINARY(256), ADD COLUMN repeats BIGINT NOT NULL DEFAULT 0, ADD UNIQUE KEY by_token (token);
INSERT INTO {schema_versions} (version, name) VALUES (3, '003_schedules') ON DUPLICATE KEY UPDATE name = name;
