DROP TABLE {replays};
ALTER TABLE {dead_letters} DROP COLUMN replay;
ALTER TABLE {outbox_waiting} DROP COLUMN replay;
DELETE FROM {schema_versions} WHERE version = 3;
