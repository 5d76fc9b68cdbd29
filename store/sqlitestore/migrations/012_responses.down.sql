DROP TABLE {idempotency_responses};
DELETE FROM {schema_versions} WHERE version = 12;
