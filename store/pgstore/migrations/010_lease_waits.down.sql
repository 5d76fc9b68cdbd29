ALTER TABLE {inbox_leases} DROP COLUMN due_at, DROP COLUMN payload_hash;
DELETE FROM {schema_versions} WHERE version = 10;
