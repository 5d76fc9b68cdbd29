-- Programs of this version check messages, compute their lanes and wake relays themselves, so that their
-- rows pass neither check nor trigger. For everybody else one trigger does all of it.
INSERT INTO {schema_versions} (version, name) VALUES (16, '016_bare_insert');

-- A claim reads in the order of position, whatever the lane.
DO $body$
BEGIN
    EXECUTE format('ALTER TABLE %s ALTER COLUMN lane DROP EXPRESSION, ALTER COLUMN lane SET NOT NULL, DROP CONSTRAINT outbox_storable, '
                   'DROP CONSTRAINT %I, ADD PRIMARY KEY (position)', {outbox_text},
                   (SELECT conname FROM pg_constraint WHERE conrelid = {outbox_text}::regclass AND contype = 'p'));
END
$body$;
DROP TRIGGER wake_relays ON {outbox};
DROP FUNCTION {wake_relays}();

-- Relays that sleep are woken when the transaction commits. Many commits that notify at once wait for each other;
-- so relays that are woken too often take their announcement back. The row has its position already: a relay that
-- announces itself later still sees the lock on their sequence.
CREATE FUNCTION {complete_message}() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    IF NEW.lane IS NOT NULL THEN
        RAISE check_violation USING CONSTRAINT = 'outbox_lane', MESSAGE = 'lane is given: leave it out';
    END IF;
    PERFORM {storable}(NEW.id, NEW.topic, NEW.key, NEW.payload, NEW.payload_bytes,
                       NEW.time, NEW.deliver_at, NEW.expires_at, NEW.enqueued_at);
    NEW.lane := {lane}(NEW.key, NEW.id);
    IF pg_catalog.pg_sequence_last_value({wakeups_text}::pg_catalog.regclass)
       > pg_catalog.date_part('epoch', pg_catalog.clock_timestamp())
       AND pg_catalog.current_setting('waybill.notify', true) IS DISTINCT FROM 'off' THEN
        PERFORM pg_catalog.pg_notify('{channel}', '');
    END IF;
    RETURN NEW;
END
$body$;
CREATE TRIGGER complete_message BEFORE INSERT ON {outbox} FOR EACH ROW
    WHEN ((NEW.lane >= 0 AND NEW.lane < 64) IS NOT TRUE) EXECUTE FUNCTION {complete_message}();
