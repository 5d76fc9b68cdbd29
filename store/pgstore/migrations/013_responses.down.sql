DROP TABLE {idempotency_responses};
DELETE FROM {locks} WHERE name = 'idempotency_responses';
DELETE FROM {schema_versions} WHERE version = 13;
