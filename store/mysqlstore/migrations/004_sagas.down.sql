DROP TABLE IF EXISTS {saga_log};
DROP TABLE IF EXISTS {sagas};
DELETE FROM {locks} WHERE name = 'sagas';
DELETE FROM {schema_versions} WHERE version = 4;
