DROP TABLE IF EXISTS {consumer_offsets};
DELETE FROM {schema_versions} WHERE version = 2;
