-- Bulk replays of dead letters. Programs of earlier versions go on after it; what dies again
-- in one of version 2 counts in no replay.

INSERT INTO {schema_versions} (version, name) VALUES (3, '003_replays');

-- replay is the number of the bulk replay that requeued the message last, 0 if that was none.
ALTER TABLE {outbox_waiting} ADD COLUMN replay INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {dead_letters} ADD COLUMN replay INTEGER NOT NULL DEFAULT 0;

-- For what is dead again.
CREATE INDEX {dead_letters_replay} ON {dead_letters} (replay) WHERE replay <> 0 AND requeued_at IS NULL;

-- A replay looks at the letters that match its plan, a JSON object, by rising number: it has
-- passed those up to one, and ends with another one. So it needs no row for each letter.
CREATE TABLE {replays} (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    state      TEXT NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'stopped', 'cancelled')),
    plan       TEXT NOT NULL,
    started_by TEXT NOT NULL,
    why        TEXT NOT NULL,
    passed     INTEGER NOT NULL DEFAULT 0,
    upto       INTEGER NOT NULL,
    letters    INTEGER NOT NULL,
    requeued   INTEGER NOT NULL DEFAULT 0,
    skipped    INTEGER NOT NULL DEFAULT 0,
    problem    TEXT NOT NULL DEFAULT '',
    started_at INTEGER NOT NULL,
    ended_at   INTEGER
) STRICT;
