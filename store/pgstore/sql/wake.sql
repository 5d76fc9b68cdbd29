-- name: announce
-- Asks the writers of the next $2 seconds to notify. It takes effect at once and for all sessions.
-- Of two relays that announce together the later time may be lost to the earlier, by a second at
-- most.
SELECT setval($1::text::regclass, extract(epoch FROM clock_timestamp())::bigint + $2)

-- name: withdraw
-- Withdraws the announcement, for all relays; the notification, which follows it, informs them. It
-- is sent without arguments.
SELECT setval({wakeups_text}::regclass, 0), pg_notify('{channel}', '{withdrawn_payload}')

-- name: withdraw_last
-- Does it for the last relay that leaves.
{withdraw} WHERE NOT EXISTS (SELECT FROM {relays} WHERE expires_at > {clock}())

-- name: open_enqueuers
-- Lists the transactions that have enqueued and not yet ended. Each locks
-- the sequence before it draws a position, until it ends; settlements do not. Read from
-- shared memory, not from a table.
SELECT DISTINCT virtualtransaction
  FROM pg_locks
 WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND granted
   AND relation = pg_get_serial_sequence($1, 'position')::regclass
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
