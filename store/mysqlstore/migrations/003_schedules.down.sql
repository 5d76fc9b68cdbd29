DROP TABLE IF EXISTS {schedules};
ALTER TABLE {scheduled} DROP KEY by_token, DROP COLUMN token, DROP COLUMN repeats;
DELETE FROM {schema_versions} WHERE version = 3;
