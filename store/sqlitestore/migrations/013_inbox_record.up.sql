-- The inbox for programs in other languages.
INSERT INTO {schema_versions} (version, name) VALUES (13, '013_inbox_record');

-- Takes what a consumer asks about a message, and keeps the last answer only. outcome says whether the
-- consumer is to handle the message, which is recorded then: 'new', or 'duplicate', 'conflict' or 'dead'.
--   name     the type in front of a version: of "order@v2", "order@v"
--   version  without zeros in front
--   alias    the type without a version from 2 to the largest integer
CREATE TABLE {inbox_record} (
    number          INTEGER PRIMARY KEY,
    consumer        TEXT,
    id              TEXT,
    type            TEXT,
    source          TEXT,
    tenant          TEXT,
    idempotency_key TEXT,
    payload_hash    TEXT,
    outcome         TEXT,
    of_source       TEXT AS (coalesce(source, '')),
    of_tenant       TEXT AS (coalesce(nullif(tenant, ''), 'default')),
    of_key          TEXT AS (coalesce(nullif(idempotency_key, ''), id)),
    name            TEXT AS (CASE substr(rtrim(type, '0123456789'), -3) WHEN '@v+'
                             THEN substr(rtrim(type, '0123456789'), 1, length(rtrim(type, '0123456789')) - 1)
                             ELSE rtrim(type, '0123456789') END),
    version         TEXT AS (ltrim(substr(type, length(rtrim(type, '0123456789')) + 1), '0')),
    alias           TEXT AS (CASE WHEN length(name) > 2 AND substr(name, -2) = '@v' AND version NOT IN ('', '1')
                                       AND (length(version) < 19 OR length(version) = 19 AND version <= '9223372036854775807')
                             THEN substr(name, 1, length(name) - 2) ELSE type END)
) STRICT;

CREATE TRIGGER {inbox_record_check} BEFORE INSERT ON {inbox_record}
BEGIN -- $body$
    SELECT RAISE(ABORT, 'consumer must have 1 to 200 bytes') WHERE coalesce(length(CAST(new.consumer AS BLOB)), 0) NOT BETWEEN 1 AND 200;
    SELECT RAISE(ABORT, 'id must have 1 to 255 bytes') WHERE coalesce(length(CAST(new.id AS BLOB)), 0) NOT BETWEEN 1 AND 255;
    SELECT RAISE(ABORT, 'type must have 1 to 255 bytes') WHERE coalesce(length(CAST(new.type AS BLOB)), 0) NOT BETWEEN 1 AND 255;
    SELECT RAISE(ABORT, 'source must have at most 255 bytes') WHERE length(CAST(new.source AS BLOB)) > 255;
    SELECT RAISE(ABORT, 'tenant must have at most 64 bytes') WHERE length(CAST(new.tenant AS BLOB)) > 64;
    SELECT RAISE(ABORT, 'idempotency_key must have at most 255 bytes') WHERE length(CAST(new.idempotency_key AS BLOB)) > 255;
    SELECT RAISE(ABORT, 'payload_hash must be 64 lower-case hex digits: a SHA-256')
     WHERE new.payload_hash <> '' AND (length(CAST(new.payload_hash AS BLOB)) <> 64 OR new.payload_hash GLOB '*[^0-9a-f]*');
END; -- $body$

CREATE TRIGGER {inbox_record_answer} AFTER INSERT ON {inbox_record}
BEGIN -- $body$
    DELETE FROM {inbox_record} WHERE number <> new.number;
    UPDATE {inbox_record} SET outcome = coalesce(
        (SELECT CASE WHEN i.dead THEN 'dead' WHEN i.payload_hash <> nullif(new.payload_hash, '') THEN 'conflict' ELSE 'duplicate' END
           FROM {inbox} i
          WHERE i.tenant = new.of_tenant AND i.consumer = new.consumer AND i.source = new.of_source AND i.alias = new.alias
            AND i.message_key = new.of_key), 'new');
    INSERT INTO {inbox} (tenant, consumer, source, alias, message_key, message_id, type, payload_hash, processed_at)
    SELECT new.of_tenant, new.consumer, new.of_source, new.alias, new.of_key, new.id, new.type, nullif(new.payload_hash, ''), {now}
      FROM {inbox_record} WHERE outcome = 'new';
END; -- $body$
