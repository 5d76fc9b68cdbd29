-- The two statements of a batch that was published as a whole. What keeps a relay that was
-- superseded from deleting is its row in relays, which they lock FOR KEY SHARE; what it owns they
-- just read.
--
--   - A relay that is considered dead loses its lanes in the transaction that deletes its row.
--     Either that waits until the rows of the outbox are gone, or the statement waits, finds no row
--     to lock, and deletes nothing, whatever it has read of the lanes before.
--   - While its row exists, a lane leaves it only by its own renewal, and a relay releases a lane
--     only when nothing of it is left to settle.
--   - Lanes that it had before, under an older epoch, do not match.
--
-- The id distinguishes messages with the same position: a server that lost its latest commits, in a
-- crash or because a standby that had not received them took over, may draw the position of a
-- message again that a relay has claimed and not settled.
--
-- Renewals do not wait: they change no key. Served by the primary keys, whatever the number
-- of rows: the planner cannot see the length of an array that comes through a sub-select, and
-- assumes that it is short. The lanes are an array for that reason, too: it would join what it
-- assumes to be short by comparing each row with each lane, which cost three times what everything
-- else does.

-- name: settle_delete
WITH {settle_fence},
gone AS (
    DELETE FROM {outbox} o USING input i
     WHERE i.lane = ANY (ARRAY(SELECT f.lane FROM fence f)) AND o.position = i.position AND o.lane = i.lane AND o.id = i.id
)
SELECT lane FROM fence

-- name: settle_archive
WITH {settle_fence},
gone AS (
    DELETE FROM {outbox} o USING input i
     WHERE i.lane = ANY (ARRAY(SELECT f.lane FROM fence f)) AND o.position = i.position AND o.lane = i.lane AND o.id = i.id
    RETURNING o.*, i.destination
), archived AS (
    INSERT INTO {outbox_archive} (published_at, lane, position, destination, {message})
    SELECT (SELECT {clock}()), o.lane, o.position, o.destination, {message "o"} FROM gone o
)
SELECT lane FROM fence

-- fragment: settle_fence
input AS (
    SELECT * FROM unnest((SELECT $4::int[]), (SELECT $5::bigint[]), (SELECT $6::text[]), (SELECT $7::text[])) AS i(lane, position, destination, id)
), alive AS MATERIALIZED (
    SELECT node FROM {relays} WHERE node = $1 FOR KEY SHARE
), fence AS MATERIALIZED (
    SELECT l.lane FROM alive JOIN {relay_lanes} l ON l.owner = alive.node
     WHERE (l.lane, l.epoch) IN (SELECT * FROM unnest($2::int[], $3::bigint[]))
)

-- name: fence
-- Does for a transaction what the fence above does for one statement, by locks on
-- the lanes.
SELECT l.lane FROM {relay_lanes} l
 WHERE (SELECT {briefly}) AND l.owner = $1 AND (l.lane, l.epoch) IN (SELECT * FROM unnest($2::int[], $3::bigint[]))
   FOR SHARE

-- name: park
-- Moves rows from the outbox to the waiting rows, one for each destination; the id as above. A row
-- of a unit that waits already follows it. A second row with an identity that waits is dropped:
-- it is the same message.
WITH input AS (
    SELECT * FROM unnest($1::int[], $2::bigint[], $3::text[], $4::boolean[], $5::boolean[], $6::float8[], $7::int[], $8::int[], $9::text[], $11::bigint[], $12::text[])
        AS i(lane, position, destination, behind, alone, after_ms, attempts, life, error, took, id)
), m AS (
    DELETE FROM {outbox} o USING (SELECT DISTINCT lane, position, id FROM input) i
     WHERE o.position = i.position AND o.lane = i.lane AND o.id = i.id
    RETURNING o.*
)
INSERT INTO {outbox_waiting} (lane, position, {message}, destination, alone, due_at, attempts, life, error, first_failed_at, history)
SELECT m.lane, m.position, {message "m"}, i.destination, i.alone,
       CASE WHEN i.behind OR (NOT i.alone AND {behind "m" "i.destination"})
            THEN NULL ELSE {clock}() + i.after_ms * interval '1 millisecond' END,
       i.attempts, i.life, i.error, CASE WHEN i.attempts > 0 THEN {clock}() END,
       CASE WHEN i.attempts > 0 THEN {with_attempt}(NULL, $10, i.took, i.error) END
  FROM m JOIN input i ON i.lane = m.lane AND i.position = m.position
ON CONFLICT DO NOTHING

-- name: follow
-- Gives published messages a waiting row for each destination that comes after.
-- Those with a key wait until promote releases the first of the key: of several in one statement
-- none sees the others.
INSERT INTO {outbox_waiting} (lane, position, {message}, destination, due_at)
SELECT w.lane, w.position, {message "w"}, i.follower, CASE WHEN w.key = '' THEN {clock}() END
  FROM unnest($1::bigint[], $2::text[], $3::text[]) AS i(position, destination, follower)
  JOIN {outbox_waiting} w USING (position, destination)
ON CONFLICT DO NOTHING

-- fragment: waiting_input
unnest($1::bigint[], $2::text[]) AS i(position, destination)

-- name: delete_waiting
DELETE FROM {outbox_waiting} w USING {waiting_input}
 WHERE w.position = i.position AND w.destination = i.destination

-- name: archive_waiting
WITH m AS ({delete_waiting} RETURNING w.*)
INSERT INTO {outbox_archive} (published_at, lane, position, destination, attempts, life, {message})
SELECT {clock}(), m.lane, m.position, m.destination, m.attempts, m.life, {message "m"} FROM m

-- name: retry
-- Runs after the statements that remove rows: a row waits behind what is left before it in its
-- unit.
UPDATE {outbox_waiting} w
   SET due_at = CASE WHEN i.behind OR (NOT i.alone AND {behind "w" "w.destination"})
            THEN NULL ELSE {clock}() + i.after_ms * interval '1 millisecond' END,
       alone = i.alone, attempts = i.attempts, life = i.life, error = CASE WHEN i.behind AND i.error = '' THEN w.error ELSE i.error END,
       first_failed_at = CASE WHEN i.attempts > 0 THEN coalesce(w.first_failed_at, {clock}()) END,
       history = CASE WHEN i.attempts > w.attempts THEN {with_attempt}(w.history, $9, i.took, i.error) ELSE w.history END
  FROM unnest($1::bigint[], $2::text[], $3::boolean[], $4::boolean[], $5::float8[], $6::int[], $7::int[], $8::text[], $10::bigint[])
       AS i(position, destination, behind, alone, after_ms, attempts, life, error, took)
 WHERE w.position = i.position AND w.destination = i.destination
   -- but not what waits behind already
   AND NOT (i.behind AND i.error = '' AND w.due_at IS NULL)

-- name: bury
-- Gives a requeued dead letter the number that it had. Others are numbered by rising positions:
-- bulk replays go by number.
WITH m AS (
    DELETE FROM {outbox_waiting} w
     USING unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::int[], $6::boolean[], $7::boolean[], $8::text[], $10::bigint[])
           AS i(position, destination, reason, error, attempts, failed, parks, fingerprint, took)
     WHERE w.position = i.position AND w.destination = i.destination
    RETURNING w.*,
              i.reason, i.error AS last_error, i.attempts AS tried, i.failed, i.parks, i.fingerprint,
              CASE WHEN i.attempts > w.attempts THEN {with_attempt}(w.history, $9, i.took, i.error) ELSE w.history END AS told,
              CASE WHEN NOT EXISTS (SELECT FROM {dead_letters} d WHERE d.number = w.letter) THEN w.letter END AS number
), again AS (
{bury_as "number, " "OVERRIDING SYSTEM VALUE" "m.number, " "IS NOT NULL"}
)
{bury_as "" "" "" "IS NULL"}

-- fragment: bury_as column overriding number given
-- Inserts the dead letters of bury whose number is given, or is not.
INSERT INTO {dead_letters} ({.column}origin, lane, position, destination, life, replay, {message}, reason, error, attempts, failed, parks, fingerprint, history, first_failed_at, last_failed_at)
{.overriding}
SELECT {.number}'relay', m.lane, m.position, m.destination, m.life, m.replay, {movable "m"}, m.reason, m.last_error, m.tried, m.failed, m.parks, m.fingerprint, m.told,
       coalesce(m.first_failed_at, {clock}()), {clock}()
  FROM m WHERE m.number {.given} ORDER BY m.position

-- name: schedule
WITH m AS ({delete_waiting} RETURNING w.*)
INSERT INTO {scheduled} (lane, position, {message}, due_at)
SELECT m.lane, m.position, {message "m"}, m.deliver_at FROM m
