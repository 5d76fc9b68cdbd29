-- fragment: not_held
-- Excludes what the caller has in flight ($4). The sub-select is run once and its result hashed.
position NOT IN (SELECT unnest($4::bigint[]))

-- fragment: row_not_held
-- Excludes waiting rows that the caller has in flight for some destinations only ($5).
AND (w.position || '/' || w.destination) NOT IN (SELECT unnest($5::text[]))

-- fragment: owns_lane
-- Excludes what is in a lane l whose epoch has changed. The sub-select is run once and its result hashed; the
-- condition is looked at once for each lane.
AND (l.lane, l.epoch) IN (SELECT r.lane::int, r.epoch FROM {relay_lanes} r)

-- name: claim_due
-- Reads waiting messages that are due: the heads of their keys, and behind a head that has not failed since it
-- was released the rest of its key, in order, up to a dead letter that parks the rest, or a message that waits
-- for its own time: one that was requeued may come before it. Only the first waiting row of a key takes others
-- along: one before it may have been committed later, and wait longer. A head that has failed is tried alone.
-- Safe with several relays because each reads only lanes that it owns; served by the partial index on (lane,
-- due_at) and the one on (topic, key, …).
--
-- As in claim_page, the limit of a lane comes through a sub-select, so that what is due is read in
-- the order of the index and not as a whole. Its rows are then looked up one by one: a join would
-- read the whole table where the planner expects many.
--
-- What is behind several heads of one key, up to a dead letter that parks it, is what is behind the first of
-- them: that one is the leader, so that the rest of a key is read once and not by each head. Of each key a
-- claim reads the share that its limit has room for.
WITH head AS (
    SELECT h.*
      FROM unnest($1::int[], $6::bigint[]) AS l(lane, epoch)
     CROSS JOIN LATERAL (
        SELECT w.position, w.destination, w.topic, w.key, w.attempts, w.alone
          FROM {outbox_waiting} w
         WHERE w.lane = l.lane {owns_lane} AND w.due_at <= (SELECT {clock}()) AND w.destination NOT IN (SELECT unnest($3::text[])) AND w.{not_held} {row_not_held}
         ORDER BY w.due_at, w.position
         LIMIT (SELECT $2::bigint)) h
     LIMIT $2
), leader AS (
    SELECT DISTINCT ON (h.topic, h.key, h.destination) h.*
      FROM (
        SELECT position, topic, key, destination, coalesce((
                SELECT min(p.position) FROM {dead_letters} p
                 WHERE p.topic = head.topic AND p.key = head.key AND p.destination = head.destination AND p.parks), 9223372036854775807) AS barrier
          FROM head
         WHERE key <> '' AND attempts = 0 AND NOT alone) h
     ORDER BY h.topic, h.key, h.destination, h.position
), due AS (
    SELECT position, destination FROM head
    UNION ALL
    SELECT f.position, f.destination
      FROM leader l
     CROSS JOIN LATERAL (
        SELECT n.*, bool_or(n.due_at > (SELECT {clock}()) OR n.due_at IS NOT NULL AND n.attempts > 0) OVER (ORDER BY n.position) AS behind
          FROM (
            SELECT w.position, w.destination, w.due_at, w.attempts
              FROM {outbox_waiting} w
             WHERE w.key <> '' AND NOT w.alone
               AND w.topic = l.topic AND w.key = l.key AND w.destination = l.destination AND w.position > l.position AND w.position < l.barrier
               AND (w.due_at IS NOT NULL OR w.{not_held} {row_not_held})
             ORDER BY w.position
             LIMIT (SELECT greatest({least_of_key}, $2 / greatest(count(*), 1)) FROM leader)) n) f
     WHERE f.due_at IS NULL AND f.behind IS NOT TRUE
       AND l.position = (SELECT min(e.position) FROM {outbox_waiting} e
                          WHERE e.key <> '' AND NOT e.alone AND e.topic = l.topic AND e.key = l.key AND e.destination = l.destination)
)
SELECT w.lane, w.position, w.destination, w.attempts, w.life, false AS blocked, NULL::float8 AS delay_ms,
       extract(epoch FROM w.expires_at - (SELECT {clock}()))::float8 * 1000 AS expires_ms, {message "w"}
  FROM (SELECT position, destination FROM due ORDER BY position LIMIT $2) due
 CROSS JOIN LATERAL (SELECT * FROM {outbox_waiting} w WHERE w.position = due.position AND w.destination = due.destination LIMIT 1) w
 ORDER BY w.position

-- name: claim_page
-- Reads what was never tried, of all lanes of a relay ($1), in the order of its position, in each lane above
-- the lane's own position ($2), above the lowest of these ($5). Safe with several relays because each reads
-- only lanes that it owns; served by the primary key. A relay that owns few lanes walks over the rows of the
-- others.
--
-- If the planner knew the limit it might expect that all rows are wanted, and read and sort them: the limit
-- comes through a sub-select, for which the planner assumes that a part of the rows suffices.
--
-- The first row is the look of [cursors]. Its parts are made in the order that cursors needs:
-- the snapshot was taken before all of them; the last position is read before pg_locks,
-- because the sub-select of the writers refers to it and so runs for a row of drawn; and both
-- are MATERIALIZED, so that neither is folded into the other. The last position comes from a function, which
-- locks the page of the sequence: while nextval logs what it draws, the row shows up to 32 positions more. The
-- function locks the sequence, too, as a writer does; the look leaves itself out.
WITH drawn AS MATERIALIZED (
    SELECT seq AS sequence, coalesce(pg_sequence_last_value(seq), 0) AS last FROM (SELECT {outbox_position_seq_text}::regclass) AS s(seq)
), look AS MATERIALIZED (
    SELECT json_build_object(
               'server', extract(epoch FROM pg_postmaster_start_time())::text,
               'session', pg_backend_pid(),
               'last', d.last,
               'waits', (SELECT position FROM {outbox_waiting} ORDER BY position LIMIT 1) IS NOT NULL
                         OR (SELECT number FROM {dead_letters} WHERE parks ORDER BY topic, key, destination, position LIMIT 1) IS NOT NULL,
               'writers', ARRAY(
                   SELECT virtualtransaction FROM pg_locks
                    WHERE d.last IS NOT NULL AND locktype = 'relation' AND mode = 'RowExclusiveLock' AND relation = d.sequence
                      AND pid IS DISTINCT FROM pg_backend_pid() AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
           )::text AS seen
      FROM drawn d
), rows AS (
    SELECT * FROM {outbox} o
     WHERE o.position > $5 AND o.position > {above_of_lane} AND o.{not_held}
     ORDER BY o.position LIMIT (SELECT $3::bigint)
)
SELECT look.seen, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, {no_message} FROM look
UNION ALL
SELECT NULL, o.lane, o.position, '', 0, 0, false,
       CASE WHEN o.deliver_at > (SELECT {clock}()) THEN extract(epoch FROM o.deliver_at - (SELECT {clock}())) * 1000 END::float8,
       extract(epoch FROM o.expires_at - (SELECT {clock}()))::float8 * 1000, {message "o"}
  FROM rows o

-- fragment: above_of_lane
-- Where the page begins in the lane of a row o: behind the highest possible position, if the relay does not
-- own the lane at its epoch ($6). Evaluated once; no row has both a lane out of range and a position.
(SELECT array_agg(coalesce(l.above, 9223372036854775807) ORDER BY r.lane)
                             FROM {relay_lanes} r LEFT JOIN unnest($1::int[], $2::bigint[], $6::bigint[]) AS l(lane, above, epoch) USING (lane, epoch))[o.lane + 1]

-- name: claim_blocked
-- Returns which of the units are blocked, counted from 1. Served by the indexes on (topic, key, …), whatever
-- the number of units: the planner cannot see the length of an array that comes through a sub-select, and
-- assumes that it is short.
SELECT i.number
  FROM unnest((SELECT $1::text[]), (SELECT $2::text[])) WITH ORDINALITY AS i(topic, key, number)
 WHERE {blocked}

-- name: ahead_range
-- Returns the first position above one and the last one, of some lanes. Served by the
-- primary key.
SELECT (SELECT o.position FROM {outbox} o WHERE o.lane = ANY($1::int[]) AND o.position > $2 ORDER BY o.position LIMIT 1),
       (SELECT o.position FROM {outbox} o WHERE o.lane = ANY($1::int[]) ORDER BY o.position DESC LIMIT 1)

-- name: claim_ahead
-- Reads what was never tried of other tenants than some ($5), between two positions ($2
-- and $3). Served by the primary key; the limit comes through a sub-select, as in claim_page.
SELECT o.lane, o.position, '', 0, 0, false,
       CASE WHEN o.deliver_at > (SELECT {clock}()) THEN extract(epoch FROM o.deliver_at - (SELECT {clock}())) * 1000 END::float8,
       extract(epoch FROM o.expires_at - (SELECT {clock}()))::float8 * 1000, {message "o"}
  FROM {outbox} o
 WHERE o.lane = ANY(ARRAY(SELECT r.lane FROM {relay_lanes} r JOIN unnest($1::int[], $7::bigint[]) AS l(lane, epoch) USING (lane, epoch)))
   AND o.position > $2 AND o.position <= $3 AND o.tenant NOT IN (SELECT unnest($5::text[])) AND o.{not_held}
 ORDER BY o.position LIMIT (SELECT $6::bigint)

-- name: stays_ahead
-- Returns, of some units ($6, $7), the first row before a position ($3) that stays behind
-- when what was read above another position ($2) is claimed. It looks from the beginning of the lanes ($1):
-- a transaction that had to wait for one that committed late is not visible without it, and a row leaves the
-- outbox through its lane's owner only, so that a later snapshot than that of the claim suffices. It is a
-- separate statement, because the planner would otherwise consider it expensive enough to compile, which takes
-- longer than running it.
SELECT o.topic, o.key, min(o.position)
  FROM {outbox} o
 WHERE o.lane = ANY($1::int[]) AND o.position < $3 AND (o.position <= $2 OR o.tenant IN (SELECT unnest($5::text[]))) AND o.{not_held}
   AND (o.topic, o.key) IN (SELECT * FROM unnest($6::text[], $7::text[]))
 GROUP BY o.topic, o.key
