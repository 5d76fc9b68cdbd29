ALTER TABLE {relays} DROP COLUMN lease_ms;
DELETE FROM {schema_versions} WHERE version = 12;
