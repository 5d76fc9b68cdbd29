DROP TABLE {consumer_offsets};
DELETE FROM {schema_versions} WHERE version = 6;
