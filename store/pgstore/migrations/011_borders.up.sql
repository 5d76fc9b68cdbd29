-- What other programs may write, and what only the schema's owner does. Programs of earlier versions
-- go on while this is applied and after it; rows that are there already are not checked.
INSERT INTO {schema_versions} (version, name) VALUES (11, '011_borders');

-- A message that was never in the outbox has a random negative position: if programs gave it, they
-- could take the one that a message of somebody else is going to have.
ALTER TABLE {scheduled}
    ALTER COLUMN position SET DEFAULT -1 - (random() * 9007199254740991)::bigint,
    ADD CONSTRAINT scheduled_storable CHECK (
        {storable}(id, topic, key, payload, payload_bytes, time, deliver_at, expires_at, enqueued_at) AND isfinite(due_at)) NOT VALID;
ALTER TABLE {schedules} ADD CONSTRAINT schedules_finite CHECK (isfinite(next_at) AND isfinite(last_at)) NOT VALID;
