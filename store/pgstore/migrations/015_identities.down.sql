-- It fails while messages of several sources or tenants have one id.
ALTER TABLE {outbox_waiting} ADD UNIQUE (id, destination);
CREATE OR REPLACE FUNCTION {enqueue}(
    topic text, payload text, type text DEFAULT '', key text DEFAULT '', headers jsonb DEFAULT NULL,
    id text DEFAULT NULL, tenant text DEFAULT 'default', subject text DEFAULT '',
    content_type text DEFAULT 'application/json', direct boolean DEFAULT false,
    correlation_id text DEFAULT '', causation_id text DEFAULT '', idempotency_key text DEFAULT '',
    deliver_at timestamptz DEFAULT NULL, expires_at timestamptz DEFAULT NULL, payload_bytes bytea DEFAULT NULL
) RETURNS text LANGUAGE sql VOLATILE AS $body$
    WITH given AS (SELECT coalesce($6, gen_random_uuid()::text) AS id),
    added AS (
        INSERT INTO {outbox} (id, topic, payload, type, key, headers, tenant, subject, content_type, direct,
                              correlation_id, causation_id, idempotency_key, deliver_at, expires_at, payload_bytes)
        SELECT g.id, $1, $2, $3, $4, $5, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16 FROM given g
         WHERE NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = g.id)
        ON CONFLICT (id) DO NOTHING
    )
    SELECT id FROM given
$body$;
DROP FUNCTION {default_source}();
DO $body$
DECLARE
    t regclass;
BEGIN
    FOREACH t IN ARRAY ARRAY[{outbox_text}, {outbox_waiting_text}, {outbox_ids_text}]::regclass[] LOOP
        EXECUTE format('DROP INDEX %s', (SELECT indexrelid::regclass FROM pg_index
             WHERE indrelid = t AND indisunique AND pg_get_indexdef(indexrelid) ~ '\(id, source, tenant'));
    END LOOP;
END
$body$;
ALTER TABLE {outbox_ids} DROP COLUMN source, DROP COLUMN tenant;
DELETE FROM {schema_versions} WHERE version = 15;
