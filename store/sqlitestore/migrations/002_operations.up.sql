-- Operations on dead letters: groups, history, decisions, and the audit log of all changes.
-- Programs of version 1 go on after it: each new column has a default, and a trigger fills in
-- what they do not write.

INSERT INTO {schema_versions} (version, name) VALUES (2, '002_operations');

-- Failed attempts, as a JSON array: the first one and the last ones, 20 at most.
ALTER TABLE {outbox_waiting} ADD COLUMN history TEXT;
ALTER TABLE {consumer_attempts} ADD COLUMN history TEXT;

-- fingerprint names the group of letters that fail alike; it is empty until somebody who can
-- make it has seen a letter of version 1. A letter is open, resolved or discarded.
ALTER TABLE {dead_letters} ADD COLUMN fingerprint TEXT NOT NULL DEFAULT '';
ALTER TABLE {dead_letters} ADD COLUMN state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'resolved', 'discarded'));
ALTER TABLE {dead_letters} ADD COLUMN history TEXT;
UPDATE {dead_letters} SET state = 'resolved' WHERE resolved_at IS NOT NULL;

CREATE INDEX {dead_letters_group} ON {dead_letters} (fingerprint, state, number);
CREATE INDEX {dead_letters_state} ON {dead_letters} (state, number);
CREATE INDEX {dead_letters_failed} ON {dead_letters} (last_failed_at);

-- What version 1 resolves is resolved.
CREATE TRIGGER {note_resolved} AFTER UPDATE OF resolved_at ON {dead_letters}
    WHEN new.resolved_at IS NOT NULL AND new.state = 'open'
BEGIN UPDATE {dead_letters} SET state = 'resolved' WHERE number = new.number; END;

-- Who has changed what, and why. letter and replay are numbers, 0 for none.
CREATE TABLE {audit_log} (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    at         INTEGER NOT NULL,
    action     TEXT NOT NULL,
    actor      TEXT NOT NULL,
    why        TEXT NOT NULL DEFAULT '',
    letter     INTEGER NOT NULL DEFAULT 0,
    message_id TEXT NOT NULL DEFAULT '',
    replay     INTEGER NOT NULL DEFAULT 0,
    detail     TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX {audit_log_action} ON {audit_log} (action, number);
CREATE INDEX {audit_log_actor} ON {audit_log} (actor, number);
CREATE INDEX {audit_log_letter} ON {audit_log} (letter, number);
CREATE INDEX {audit_log_message} ON {audit_log} (message_id, number);
CREATE INDEX {audit_log_replay} ON {audit_log} (replay, number);

-- As before, but for letters that were discarded.
DROP VIEW {messages};
CREATE VIEW {messages} AS
    SELECT id, CASE WHEN deliver_at > {now} THEN 'Scheduled' ELSE 'Pending' END AS status,
           topic, direct, '' AS destination, CASE WHEN type = '' THEN topic ELSE type END AS type, source, tenant, key,
           correlation_id, 0 AS attempts, '' AS error, enqueued_at, deliver_at AS due_at, NULL AS published_at
      FROM {outbox}
    UNION ALL
    SELECT id, 'Waiting', topic, direct, destination, CASE WHEN type = '' THEN topic ELSE type END, source, tenant, key,
           correlation_id, attempts, error, enqueued_at, due_at, NULL FROM {outbox_waiting}
    UNION ALL
    SELECT id, 'Scheduled', topic, direct, '', CASE WHEN type = '' THEN topic ELSE type END, source, tenant, key,
           correlation_id, 0, '', enqueued_at, due_at, NULL FROM {scheduled}
    UNION ALL
    SELECT id, 'Published', topic, direct, destination, CASE WHEN type = '' THEN topic ELSE type END, source, tenant, key,
           correlation_id, attempts, '', enqueued_at, NULL, published_at FROM {outbox_archive}
    UNION ALL
    SELECT id, CASE WHEN state = 'discarded' THEN 'Discarded' WHEN failed THEN 'Failed' ELSE 'Dead' END, topic, direct, destination,
           CASE WHEN type = '' THEN topic ELSE type END, source, tenant, key,
           correlation_id, attempts, error, enqueued_at, requeued_at, NULL FROM {dead_letters} WHERE origin = 'relay';
