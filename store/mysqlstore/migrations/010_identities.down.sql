-- It fails while messages of several sources or tenants have one id.
ALTER TABLE {outbox} DROP KEY by_id, ADD UNIQUE KEY by_id (id);
ALTER TABLE {outbox_waiting} DROP KEY by_id, ADD UNIQUE KEY by_id (id, destination);
ALTER TABLE {outbox_ids} DROP PRIMARY KEY, DROP COLUMN source, DROP COLUMN tenant, ADD PRIMARY KEY (id);
DELETE FROM {schema_versions} WHERE version = 10;
