DROP TABLE IF EXISTS {traffic};
DELETE FROM {schema_versions} WHERE version = 11;
