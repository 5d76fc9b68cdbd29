-- Ids are unique for each source and tenant. Programs of earlier versions go on while this is applied
-- and after it, and do not tell apart what has one id.
ALTER TABLE {outbox} DROP KEY by_id, ADD UNIQUE KEY by_id (id, source, tenant);
ALTER TABLE {outbox_waiting} DROP KEY by_id, ADD UNIQUE KEY by_id (id, source, tenant, destination);
-- What programs of earlier versions note has the empty tenant, and counts for every source and tenant.
ALTER TABLE {outbox_ids} ADD COLUMN source VARBINARY(256) NOT NULL DEFAULT '', ADD COLUMN tenant VARBINARY(65) NOT NULL DEFAULT '',
    DROP PRIMARY KEY, ADD PRIMARY KEY (id, source, tenant);
INSERT INTO {schema_versions} (version, name) VALUES (10, '010_identities') ON DUPLICATE KEY UPDATE name = name;
