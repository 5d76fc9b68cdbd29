-- Takes away what kept ids unique whatever their source and tenant, which programs of versions before
-- 15 need: their enqueues fail after this. While one of their relays is alive, nothing is done; then
-- the step is to be run again when they are gone.
DO $body$
BEGIN
    IF EXISTS (SELECT FROM {relays} WHERE expires_at > {clock}()
                  AND started_at < (SELECT applied_at FROM {schema_versions} WHERE version = 15)) THEN
        RAISE NOTICE 'a relay began before schema version 15: version 17 is left for when it has ended';
        RETURN;
    END IF;
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', {outbox_text},
                   (SELECT conname FROM pg_constraint WHERE conrelid = {outbox_text}::regclass AND contype = 'u'));
    EXECUTE format('ALTER TABLE %1$s DROP CONSTRAINT %2$I, ADD CONSTRAINT %2$I PRIMARY KEY USING INDEX %3$I', {outbox_ids_text},
                   (SELECT conname FROM pg_constraint WHERE conrelid = {outbox_ids_text}::regclass AND contype = 'p'),
                   (SELECT c.relname FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid
                     WHERE x.indrelid = {outbox_ids_text}::regclass AND x.indisunique AND NOT x.indisprimary));
    INSERT INTO {schema_versions} (version, name) VALUES (17, '017_identities_alone');
END
$body$;
