DROP TABLE {inbox_leases};
DELETE FROM {schema_versions} WHERE version = 5;
