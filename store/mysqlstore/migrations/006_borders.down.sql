ALTER TABLE {scheduled} MODIFY position BIGINT NOT NULL;
DELETE FROM {schema_versions} WHERE version = 6;
