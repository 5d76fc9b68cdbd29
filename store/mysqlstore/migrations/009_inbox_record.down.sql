DROP PROCEDURE {inbox_record};
DELETE FROM {schema_versions} WHERE version = 9;
