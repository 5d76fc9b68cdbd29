DROP FUNCTION {purge_audit}(double precision, integer);
DROP FUNCTION {drop_archive_day}(date);
DROP FUNCTION {add_archive_day}(date);
DROP TABLE {locks};
ALTER TABLE {schedules} DROP CONSTRAINT schedules_finite;
ALTER TABLE {scheduled} DROP CONSTRAINT scheduled_storable, ALTER COLUMN position DROP DEFAULT;
DELETE FROM {schema_versions} WHERE version = 11;
