ALTER TABLE {consumer_attempts} DROP COLUMN starts;
DELETE FROM {schema_versions} WHERE version = 4;
