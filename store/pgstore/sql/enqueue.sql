-- name: enqueue_one
-- Stores one message in the caller's transaction. The unique index on the identity of messages makes a repeated
-- one store nothing without aborting the transaction; the look into the waiting rows, by their unique index,
-- does the same for a message that has left the outbox for a while. The number of rows shows whether it is new.
INSERT INTO {outbox} ({columns})
SELECT {values}
WHERE NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = {id} AND w.source = {source} AND w.tenant = {tenant})
ON CONFLICT (id, source, tenant) DO NOTHING
RETURNING {waking}

-- name: enqueue_many
-- Does the same for several.
INSERT INTO {outbox} ({columns})
SELECT {values}
FROM unnest({arrays}) WITH ORDINALITY AS i({columns}, ord)
WHERE NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = {id} AND w.source = {source} AND w.tenant = {tenant})
ORDER BY i.ord
ON CONFLICT (id, source, tenant) DO NOTHING
RETURNING id, source, tenant, {waking}

-- name: enqueue_unique
-- Does the same for messages that must not come twice within the retention: the
-- primary key of outbox_ids decides first. An id without a tenant was recorded by an earlier version, which
-- stored only the id.
WITH added AS (
    INSERT INTO {outbox_ids} (id, source, tenant)
    SELECT DISTINCT {id}, {source}, {tenant} FROM unnest({identity_arrays}) AS i({identity_columns})
     WHERE NOT EXISTS (SELECT 1 FROM {outbox_ids} u WHERE u.id = {id} AND u.source = '' AND u.tenant = '')
    ON CONFLICT (id, source, tenant) DO NOTHING
    RETURNING id, source, tenant
)
INSERT INTO {outbox} ({columns})
SELECT {values}
FROM unnest({arrays}) WITH ORDINALITY AS i({columns}, ord)
JOIN added a ON a.id = {id} AND a.source = {source} AND a.tenant = {tenant}
WHERE NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = {id} AND w.source = {source} AND w.tenant = {tenant})
ORDER BY i.ord
ON CONFLICT (id, source, tenant) DO NOTHING
RETURNING id, source, tenant, {waking}

-- The statements for messages with generated ids. No other message can have one of them, so there is no check.
-- Positions follow the order of the arrays.

-- name: enqueue_fresh_one
INSERT INTO {outbox} ({columns}) VALUES ({values}) RETURNING {waking}

-- name: enqueue_fresh
INSERT INTO {outbox} ({columns})
SELECT {values} FROM unnest({arrays}) WITH ORDINALITY AS i({columns}, ord) ORDER BY i.ord
RETURNING {waking}

-- fragment: waking
-- Notifies relays that sleep when the transaction commits, as the trigger complete_message does for rows of other
-- programs. It is evaluated when the row has its position.
CASE WHEN pg_sequence_last_value({wakeups_text}::regclass) > date_part('epoch', clock_timestamp())
               AND current_setting('waybill.notify', true) IS DISTINCT FROM 'off' THEN pg_notify('{channel}', '') END
