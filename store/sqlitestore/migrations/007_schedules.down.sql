DROP TABLE {schedules};
DROP INDEX {scheduled_token};
ALTER TABLE {scheduled} DROP COLUMN token;
DELETE FROM {schema_versions} WHERE version = 7;
