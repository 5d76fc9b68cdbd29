ALTER TABLE {inbox_leases} DROP COLUMN due_at;
ALTER TABLE {inbox_leases} DROP COLUMN payload_hash;
DELETE FROM {schema_versions} WHERE version = 9;
