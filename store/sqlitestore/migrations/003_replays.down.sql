DROP TABLE {replays};
DROP INDEX {dead_letters_replay};
ALTER TABLE {dead_letters} DROP COLUMN replay;
ALTER TABLE {outbox_waiting} DROP COLUMN replay;
DELETE FROM {schema_versions} WHERE version = 3;
