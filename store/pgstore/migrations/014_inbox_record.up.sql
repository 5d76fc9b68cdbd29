-- The inbox for programs in other languages.
INSERT INTO {schema_versions} (version, name) VALUES (14, '014_inbox_record');

-- Records, in the caller's transaction, that a consumer handles a message, and says whether it is to:
-- 'new', or 'duplicate', 'conflict' or 'dead', for which nothing is recorded. It has the owner's rights,
-- so that its caller needs none to the tables.
--
-- Where stores with a compact inbox have been, consumers may look into either form, so it adds a row
-- to both, the full one first.
CREATE FUNCTION {inbox_record}(
    consumer text, id text, type text, source text DEFAULT '', tenant text DEFAULT 'default',
    idempotency_key text DEFAULT '', payload_hash text DEFAULT ''
) RETURNS text LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_column
DECLARE
    of_source text := coalesce($4, '');
    of_tenant text := coalesce(nullif($5, ''), 'default');
    of_key text := coalesce(nullif($6, ''), $2);
    of_hash text := nullif($7, '');
    version text COLLATE "C";
    of_alias text := $3; -- the type without a version from 2 to the largest bigint
    outcome text;
    wrong text := CASE
        WHEN coalesce(octet_length($1), 0) NOT BETWEEN 1 AND 200 THEN 'consumer must have 1 to 200 bytes'
        WHEN coalesce(octet_length($2), 0) NOT BETWEEN 1 AND 255 THEN 'id must have 1 to 255 bytes'
        WHEN coalesce(octet_length($3), 0) NOT BETWEEN 1 AND 255 THEN 'type must have 1 to 255 bytes'
        WHEN octet_length(of_source) > 255 THEN 'source must have at most 255 bytes'
        WHEN octet_length(of_tenant) > 64 THEN 'tenant must have at most 64 bytes'
        WHEN octet_length(of_key) > 255 THEN 'idempotency_key must have at most 255 bytes'
        WHEN of_hash !~ '^[0-9a-f]{64}$' THEN 'payload_hash must be 64 lower-case hex digits: a SHA-256' END;
BEGIN
    IF wrong IS NOT NULL THEN
        RAISE check_violation USING MESSAGE = wrong;
    END IF;
    version := ltrim(substring($3 FROM '@v[+]?([0-9]+)$'), '0');
    IF version NOT IN ('', '1') AND (length(version) < 19 OR length(version) = 19 AND version <= '9223372036854775807') THEN
        of_alias := coalesce(substring($3 FROM '^(.+)@v[+]?[0-9]+$'), $3);
    END IF;
    INSERT INTO {inbox} (tenant, consumer, source, alias, message_key, message_id, type, payload_hash)
    VALUES (of_tenant, $1, of_source, of_alias, of_key, $2, $3, of_hash) ON CONFLICT DO NOTHING;
    IF FOUND THEN
        IF NOT EXISTS (SELECT FROM {inbox_scopes}) THEN
            RETURN 'new';
        END IF;
        INSERT INTO {inbox_compact} (key, payload_hash)
        VALUES ({inbox_key}(of_tenant, $1, of_source, of_alias, of_key), left(of_hash, 32)::uuid) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN 'new';
        END IF;
        DELETE FROM {inbox}
         WHERE tenant = of_tenant AND consumer = $1 AND source = of_source AND alias = of_alias AND message_key = of_key;
    END IF;
    SELECT CASE WHEN r.dead THEN 'dead' WHEN of_hash NOT LIKE r.hash || '%' THEN 'conflict' ELSE 'duplicate' END INTO outcome
      FROM (SELECT dead, payload_hash AS hash FROM {inbox}
             WHERE tenant = of_tenant AND consumer = $1 AND source = of_source AND alias = of_alias AND message_key = of_key
            UNION ALL
            SELECT dead, replace(payload_hash::text, '-', '') FROM {inbox_compact}
             WHERE key = {inbox_key}(of_tenant, $1, of_source, of_alias, of_key)) r
     LIMIT 1;
    IF outcome IS NULL THEN
        RAISE serialization_failure USING MESSAGE = 'the inbox record has expired meanwhile; try again';
    END IF;
    RETURN outcome;
END
$body$;
REVOKE ALL ON FUNCTION {inbox_record} FROM PUBLIC;
