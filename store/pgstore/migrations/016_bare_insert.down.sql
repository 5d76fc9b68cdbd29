DROP TRIGGER complete_message ON {outbox};
DROP FUNCTION {complete_message}();

DO $body$
BEGIN
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', {outbox_text},
                   (SELECT conname FROM pg_constraint WHERE conrelid = {outbox_text}::regclass AND contype = 'p'));
END
$body$;
ALTER TABLE {outbox}
    DROP COLUMN lane,
    ADD COLUMN lane smallint GENERATED ALWAYS AS ({lane}(key, id)) STORED,
    ADD PRIMARY KEY (lane, position),
    ADD CONSTRAINT outbox_storable CHECK (
        {storable}(id, topic, key, payload, payload_bytes, time, deliver_at, expires_at, enqueued_at));

CREATE FUNCTION {wake_relays}() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    IF pg_catalog.pg_sequence_last_value({wakeups_text}::pg_catalog.regclass)
       > pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) THEN
        PERFORM pg_catalog.pg_notify('{channel}', '');
    END IF;
    RETURN NULL;
END
$body$;
CREATE TRIGGER wake_relays AFTER INSERT ON {outbox} FOR EACH STATEMENT EXECUTE FUNCTION {wake_relays}();

DELETE FROM {schema_versions} WHERE version = 16;
