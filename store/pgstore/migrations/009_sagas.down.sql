DROP TABLE {saga_log};
DROP TABLE {sagas};
DELETE FROM {schema_versions} WHERE version = 9;
