-- Which rows are past their retention, of $1 milliseconds, and belong to the tenant $2, in stores that keep times as
-- microseconds and booleans as numbers.

-- fragment: past_retention time
{.time} <= {now} - CAST($1 * 1000 AS {integer})

-- fragment: expired_inbox
-- Records of dead letters stay until these go. Served by the index on the time.
NOT dead AND {past_retention "processed_at"} AND ($2 = '' OR tenant = $2)

-- fragment: expired_attempts
-- A message whose next attempt is still to come may yet be delivered again.
{past_retention "due_at"} AND ($2 = '' OR tenant = $2)

-- fragment: expired_leases
-- A key that is leased, or waits, is not removed by its retention. Served by the index on first_seen: what was
-- last seen before a time was first seen before it.
{past_retention "first_seen"} AND {past_retention "last_seen"}
   AND coalesce(coalesce(lease_until, due_at) <= {now}, 1) AND $2 = ''

-- fragment: expired_sagas
-- Served by the index on ended_at.
{past_retention "ended_at"} AND ($2 = '' OR tenant = $2)

-- fragment: expired_audit
{past_retention "at"} AND $2 = ''

-- fragment: expired_responses
-- Served by the index on expires_at.
{past_retention "expires_at"} AND $2 = ''

-- fragment: behind_letter
-- True for a dead letter that messages wait behind. Served by the index on the units.
(d.parks AND EXISTS (SELECT 1 FROM {outbox_waiting} w
        WHERE w.topic = d.topic AND w.{key} = d.{key} AND w.{key} <> '' AND NOT w.alone AND w.destination = d.destination AND w.position > d.position))

-- fragment: expired_letters
-- A dead letter is settled after it has failed. Served by the index on the last failure.
FROM {dead_letters} d
 WHERE d.requeued_at IS NULL AND {past_retention "d.last_failed_at"} AND {past_retention "coalesce(d.resolved_at, d.last_failed_at)"}
   AND ($2 = '' OR d.tenant = $2) AND NOT {behind_letter}

-- name: cleanup_note_cleanup
-- For a store without a default for the time of an entry.
INSERT INTO {audit_log} (at, action, actor, detail) VALUES ({now}, 'cleanup', 'janitor', $1)

-- The rows of each kind that are past their retention.

-- name: cleanup_count_inbox
SELECT count(*) FROM {inbox} WHERE {expired_inbox}

-- name: cleanup_count_attempts
SELECT count(*) FROM {consumer_attempts} WHERE {expired_attempts}

-- name: cleanup_count_leases
SELECT count(*) FROM {inbox_leases} WHERE {expired_leases}

-- name: cleanup_count_letters
SELECT count(*) {expired_letters}

-- name: cleanup_count_sagas
SELECT count(*) FROM {sagas} WHERE {expired_sagas}

-- name: cleanup_count_audit
SELECT count(*) FROM {audit_log} WHERE {expired_audit}

-- name: cleanup_count_responses
SELECT count(*) FROM {idempotency_responses} WHERE {expired_responses}

-- Whether this transaction is the only one that removes such rows, if {try_lock} has a text.

-- name: cleanup_lock_inbox
{try_lock "inbox"}

-- name: cleanup_lock_attempts
{try_lock "consumer_attempts"}

-- name: cleanup_lock_leases
{try_lock "inbox_leases"}

-- name: cleanup_lock_letters
{try_lock "dead_letters"}

-- name: cleanup_lock_sagas
{try_lock "sagas"}

-- name: cleanup_lock_audit
{try_lock "audit_log"}

-- name: cleanup_lock_responses
{try_lock "idempotency_responses"}
