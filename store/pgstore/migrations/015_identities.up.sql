-- Ids are unique for each source and tenant. Programs of earlier versions go on while this is applied
-- and after it: what their statements need stays until 017, and until then an id of another source or
-- tenant is refused with a unique violation.
INSERT INTO {schema_versions} (version, name) VALUES (15, '015_identities');

-- No index can hold what was let in before version 11. It stays longer than it may be, and becomes a dead
-- letter, which keeps no more of it either.
UPDATE {outbox} SET source = left(source, 256), tenant = left(tenant, 65) WHERE length(source) > 256 OR length(tenant) > 65;
UPDATE {outbox_waiting} SET source = left(source, 256), tenant = left(tenant, 65) WHERE length(source) > 256 OR length(tenant) > 65;

CREATE UNIQUE INDEX ON {outbox} (id, source, tenant);
CREATE UNIQUE INDEX ON {outbox_waiting} (id, source, tenant, destination);
DO $body$
BEGIN
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', {outbox_waiting_text},
                   (SELECT conname FROM pg_constraint WHERE conrelid = {outbox_waiting_text}::regclass AND contype = 'u'));
END
$body$;

-- What programs of earlier versions note has the empty tenant, and counts for every source and tenant.
ALTER TABLE {outbox_ids}
    ADD COLUMN source text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN tenant text COLLATE "C" NOT NULL DEFAULT '';
CREATE UNIQUE INDEX ON {outbox_ids} (id, source, tenant);

-- The source of messages that name none, for the function below: the column's default.
DO $body$
BEGIN
    EXECUTE format('CREATE OR REPLACE FUNCTION %s() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS %L', {default_source_text},
                   (SELECT 'SELECT ' || pg_get_expr(d.adbin, d.adrelid)
                      FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
                     WHERE d.adrelid = {outbox_text}::regclass AND a.attname = 'source'));
END
$body$;

-- As before, but for the source and the tenant.
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
         WHERE NOT EXISTS (SELECT 1 FROM {outbox_waiting} w
                            WHERE w.id = g.id AND w.source = {default_source}() AND w.tenant = $7)
        ON CONFLICT (id, source, tenant) DO NOTHING
    )
    SELECT id FROM given
$body$;
