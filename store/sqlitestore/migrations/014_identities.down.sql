-- It fails while messages of several sources or tenants have one id.
CREATE UNIQUE INDEX {outbox_id} ON {outbox} (id);
CREATE UNIQUE INDEX {outbox_waiting_id} ON {outbox_waiting} (id, destination);
CREATE UNIQUE INDEX {outbox_ids_id} ON {outbox_ids} (id);
DELETE FROM {schema_versions} WHERE version = 14;
