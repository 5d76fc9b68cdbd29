-- It fails while messages of several sources or tenants have one id.
ALTER TABLE {outbox} ADD UNIQUE (id);
DO $body$
BEGIN
    EXECUTE format('ALTER TABLE %1$s DROP CONSTRAINT %2$I, ADD CONSTRAINT %2$I PRIMARY KEY (id)', {outbox_ids_text},
                   (SELECT conname FROM pg_constraint WHERE conrelid = {outbox_ids_text}::regclass AND contype = 'p'));
END
$body$;
CREATE UNIQUE INDEX ON {outbox_ids} (id, source, tenant);
DELETE FROM {schema_versions} WHERE version = 17;
