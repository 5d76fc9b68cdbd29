-- The inbox for programs in other languages.
DROP PROCEDURE IF EXISTS {inbox_record};

-- Records, in the caller's transaction, that a consumer handles a message, and returns a row that says
-- whether it is to: 'new', or 'duplicate', 'conflict' or 'dead', for which nothing is recorded. NULL is
-- what is not given. It has the rights of who has made it, so that its caller needs none to the tables.
-- It is no function, because servers that replicate refuse to make those.
DELIMITER //
CREATE PROCEDURE {inbox_record}(
    p_consumer LONGBLOB, p_id LONGBLOB, p_type LONGBLOB, p_source LONGBLOB, p_tenant LONGBLOB,
    p_idempotency_key LONGBLOB, p_payload_hash LONGBLOB
) MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
    DECLARE v_source LONGBLOB DEFAULT coalesce(p_source, '');
    DECLARE v_tenant LONGBLOB DEFAULT coalesce(nullif(p_tenant, ''), 'default');
    DECLARE v_key LONGBLOB DEFAULT coalesce(nullif(p_idempotency_key, ''), p_id);
    DECLARE v_hash LONGBLOB DEFAULT nullif(p_payload_hash, '');
    DECLARE v_tail LONGBLOB DEFAULT SUBSTRING_INDEX(p_type, '@v', -1);
    DECLARE v_digits LONGBLOB DEFAULT CASE WHEN LEFT(v_tail, 1) = '+' THEN SUBSTRING(v_tail, 2) ELSE v_tail END;
    DECLARE v_version LONGBLOB DEFAULT TRIM(LEADING '0' FROM v_digits);
    DECLARE v_name INT DEFAULT LENGTH(p_type) - LENGTH(v_tail) - 2; -- bytes before the version
    DECLARE v_alias LONGBLOB DEFAULT CASE -- the type without a version from 2 to the largest BIGINT
        WHEN v_name > 0 AND CONVERT(v_digits USING latin1) NOT REGEXP '[^0-9]' AND v_version NOT IN ('', '1')
             AND (LENGTH(v_version) < 19 OR LENGTH(v_version) = 19 AND v_version <= '9223372036854775807')
        THEN LEFT(p_type, v_name) ELSE p_type END;
    DECLARE v_wrong VARCHAR(100) DEFAULT CASE
        WHEN coalesce(LENGTH(p_consumer), 0) NOT BETWEEN 1 AND 200 THEN 'consumer must have 1 to 200 bytes'
        WHEN coalesce(LENGTH(p_id), 0) NOT BETWEEN 1 AND 255 THEN 'id must have 1 to 255 bytes'
        WHEN coalesce(LENGTH(p_type), 0) NOT BETWEEN 1 AND 255 THEN 'type must have 1 to 255 bytes'
        WHEN LENGTH(v_source) > 255 THEN 'source must have at most 255 bytes'
        WHEN LENGTH(v_tenant) > 64 THEN 'tenant must have at most 64 bytes'
        WHEN LENGTH(v_key) > 255 THEN 'idempotency_key must have at most 255 bytes'
        WHEN LENGTH(v_hash) <> 64 OR CONVERT(v_hash USING latin1) COLLATE latin1_bin REGEXP '[^0-9a-f]'
        THEN 'payload_hash must be 64 lower-case hex digits: a SHA-256' END;

    IF v_wrong IS NOT NULL THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = v_wrong;
    END IF;
    INSERT INTO {inbox} (tenant, consumer, source, alias, message_key, message_id, type, payload_hash, processed_at)
    VALUES (v_tenant, p_consumer, v_source, v_alias, v_key, p_id, p_type, v_hash, {now})
    ON DUPLICATE KEY UPDATE repeats = repeats + 1;
    IF ROW_COUNT() = 1 THEN
        SELECT 'new' AS outcome;
    ELSE -- a read that locks sees what was committed since the transaction began
        SELECT CASE WHEN dead THEN 'dead' WHEN payload_hash <> v_hash THEN 'conflict' ELSE 'duplicate' END AS outcome
          FROM {inbox}
         WHERE tenant = v_tenant AND consumer = p_consumer AND source = v_source AND alias = v_alias AND message_key = v_key
           FOR UPDATE;
    END IF;
END//
DELIMITER ;
INSERT INTO {schema_versions} (version, name) VALUES (9, '009_inbox_record') ON DUPLICATE KEY UPDATE name = name;
