DROP TABLE {traffic};
DELETE FROM {schema_versions} WHERE version = 15;
