-- fragment: copied
-- Always holds, and makes the transaction wait at its end until a synchronous standby, if there is one, has
-- what this statement sees: another session's COMMIT may have abandoned that wait. Such rows must not make
-- anybody skip anything, because a failover would lose them. A transaction that writes waits anyway, and one
-- that only reads writes this record, which only logical decoding sees.
(current_setting('synchronous_standby_names') = '' OR pg_logical_emit_message(true, 'waybill', '') IS NOT NULL)

-- The statements below are the common ones, with that wait.

-- name: gate_outcome
SELECT dead, coalesce(payload_hash, '') FROM {inbox} WHERE {this_key} AND {copied}

-- name: offset_read
SELECT next_offset, recorded_below, generation, member FROM {consumer_offsets} {this_partition} AND {copied}

-- name: response_find
SELECT response FROM {idempotency_responses} WHERE {key} = $1 AND expires_at > {now} AND {copied}
