-- The compact form of the inbox, for stores that are configured to use it. A record of it has
-- no room for texts: what its messages have in common is in {inbox_scopes}.
INSERT INTO {schema_versions} (version, name) VALUES (5, '005_inbox_compact');

-- The key of a message in 16 bytes. Each part stands behind its length, so that parts are not
-- run together. One that is a UUID version 7 keeps its first six bytes, the time, in front:
-- records of one time then lie side by side in the index. The rest is a hash.
CREATE FUNCTION {inbox_key}(tenant text, consumer text, source text, alias text, message_key text)
RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $body$
    SELECT overlay(encode(substring(sha256(convert_to(
               octet_length($1) || ':' || $1 || octet_length($2) || ':' || $2 || octet_length($3) || ':' || $3 ||
               octet_length($4) || ':' || $4 || octet_length($5) || ':' || $5, 'UTF8')) FOR 16), 'hex')
           PLACING CASE WHEN $5 ~ '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-' THEN left($5, 8) || substr($5, 10, 4) ELSE '' END
           FROM 1)::uuid
$body$;

-- Who has handled what kind of message from whom.
CREATE TABLE {inbox_scopes} (
    id       integer GENERATED ALWAYS AS IDENTITY UNIQUE,
    tenant   text COLLATE "C" NOT NULL,
    consumer text COLLATE "C" NOT NULL,
    source   text COLLATE "C" NOT NULL,
    alias    text COLLATE "C" NOT NULL,
    type     text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, consumer, source, alias, type)
);

-- The columns stand in an order that leaves no gaps. Times are cut to ten seconds, so
-- that the index on them needs few bytes for those of one time.
CREATE TABLE {inbox_compact} (
    processed_at timestamptz NOT NULL DEFAULT date_bin('10 seconds', {clock}(), 'epoch'),
    scope        integer,
    dead         boolean NOT NULL DEFAULT false,
    key          uuid NOT NULL PRIMARY KEY,
    payload_hash uuid
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX ON {inbox_compact} (processed_at);
