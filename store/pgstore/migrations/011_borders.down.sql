ALTER TABLE {schedules} DROP CONSTRAINT schedules_finite;
ALTER TABLE {scheduled} DROP CONSTRAINT scheduled_storable, ALTER COLUMN position DROP DEFAULT;
DELETE FROM {schema_versions} WHERE version = 11;
