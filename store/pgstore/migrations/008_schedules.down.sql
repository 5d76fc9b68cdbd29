DROP TABLE {schedules};
ALTER TABLE {scheduled} DROP COLUMN token;
DELETE FROM {schema_versions} WHERE version = 8;
