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
    SELECT id, CASE WHEN failed THEN 'Failed' ELSE 'Dead' END, topic, direct, destination,
           CASE WHEN type = '' THEN topic ELSE type END, source, tenant, key,
           correlation_id, attempts, error, enqueued_at, requeued_at, NULL FROM {dead_letters} WHERE origin = 'relay';
DROP TABLE {audit_log};
DROP TRIGGER {note_resolved};
DROP INDEX {dead_letters_group};
DROP INDEX {dead_letters_state};
DROP INDEX {dead_letters_failed};
ALTER TABLE {dead_letters} DROP COLUMN fingerprint;
ALTER TABLE {dead_letters} DROP COLUMN state;
ALTER TABLE {dead_letters} DROP COLUMN history;
ALTER TABLE {outbox_waiting} DROP COLUMN history;
ALTER TABLE {consumer_attempts} DROP COLUMN history;
DELETE FROM {schema_versions} WHERE version = 2;
