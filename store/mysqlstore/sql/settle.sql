-- name: fence
-- Locks the relay's own row, and those of its lanes, until the transaction ends: a relay that considers it dead
-- deletes that row before it frees the lanes, and so waits, or has left nothing to be found here. A settlement
-- that is repeated because the answer to the first was lost waits for that one, which may still be running: the
-- statements below read rows before they delete them.
SELECT l.lane, l.epoch FROM {relays} r JOIN {relay_lanes} l FORCE INDEX (by_owner) ON l.owner = r.node
 WHERE r.node = $1
   FOR UPDATE

-- The statements about what came straight from the outbox and is published take the positions
-- of all that have one destination at once, and then all positions.
--
-- Here and elsewhere the access path to rows that are locked is fixed, from a list or a derived table to the
-- key: reading a small table as a whole looks cheap to the server, but it waits for every row that another
-- transaction has locked.

-- name: archive
INSERT INTO {outbox_archive} (published_at, position, destination, {message})
SELECT {now}, o.position, $2, {message "o"}
  FROM {listed} STRAIGHT_JOIN {outbox} o FORCE INDEX (PRIMARY) ON o.position = n.number

-- name: remove
DELETE o FROM {listed} STRAIGHT_JOIN {outbox} o FORCE INDEX (PRIMARY) ON o.position = n.number

-- fragment: listed
-- A table n of the numbers $1.
JSON_TABLE('[$1]', '$[*]' COLUMNS (number BIGINT PATH '$')) n

-- fragment: listed_waiting
-- The waiting rows w of the positions $1 and the destination $2.
{listed} STRAIGHT_JOIN {outbox_waiting} w FORCE INDEX (PRIMARY) ON w.position = n.number AND w.destination = $2

-- The statements about waiting rows take positions, or a position, as $1, and their destination as $2. See settleplan.Plan for what
-- each is to do.

-- name: park
-- Drops a second row with an identity that waits: it is the same message.
INSERT INTO {outbox_waiting} (position, lane, {message}, destination, due_at, attempts, life, error, first_failed_at, alone, history)
SELECT o.position, o.lane, {message "o"}, $2,
       CASE WHEN $3 OR NOT $8 AND {behind "o" "$2"} THEN NULL ELSE {now} + CAST($4 * 1000 AS SIGNED) END,
       $5, $6, $7, CASE WHEN $5 > 0 THEN {now} END, $8, CASE WHEN $5 > 0 THEN {with_attempt "'[]'" "$9" "$10" "$7"} END
  FROM {listed} STRAIGHT_JOIN {outbox} o FORCE INDEX (PRIMARY) ON o.position = n.number
ON DUPLICATE KEY UPDATE {outbox_waiting}.position = {outbox_waiting}.position

-- name: retry
-- Reads the row, and whether it is behind something, before it changes it: b has a
-- LIMIT for that.
UPDATE (SELECT e.position, e.destination, e.attempts, e.error, e.first_failed_at, e.history, {behind_own} AS behind
          FROM {outbox_waiting} e WHERE e.position = $1 AND e.destination = $2 LIMIT 1) b
  STRAIGHT_JOIN {outbox_waiting} w FORCE INDEX (PRIMARY) ON w.position = b.position AND w.destination = b.destination
   SET w.due_at = CASE WHEN $3 OR NOT $8 AND b.behind THEN NULL ELSE {now} + CAST($4 * 1000 AS SIGNED) END,
       w.alone = $8, w.attempts = $5, w.life = $6, w.error = CASE WHEN $3 AND $7 = '' THEN b.error ELSE $7 END,
       w.first_failed_at = CASE WHEN $5 > 0 THEN coalesce(b.first_failed_at, {now}) END,
       w.history = CASE WHEN $5 > b.attempts THEN {with_attempt "coalesce(b.history, '[]')" "$9" "$10" "$7"} ELSE b.history END

-- fragment: behind_own
(e.{key} <> '' AND (
    EXISTS (SELECT 1 FROM {outbox_waiting} f
             WHERE f.topic = e.topic AND f.{key} = e.{key} AND NOT f.alone AND f.destination = e.destination AND f.position < e.position)
    OR EXISTS (SELECT 1 FROM {dead_letters} p
             WHERE p.parks = 1 AND p.topic = e.topic AND p.{key} = e.{key} AND p.destination = e.destination AND p.position < e.position)))

-- name: bury
INSERT INTO {dead_letters} (number, origin, position, lane, destination, life, replay, {message}, reason, error, attempts, failed, parks, fingerprint, history, first_failed_at, last_failed_at)
SELECT {letter_again}, 'relay', w.position, w.lane, w.destination, w.life, w.replay, {message "w"}, $3, $4, $5, $6, $7, $8,
       CASE WHEN $5 > w.attempts THEN {with_attempt "coalesce(w.history, '[]')" "$9" "$10" "$4"} ELSE w.history END, coalesce(w.first_failed_at, {now}), {now}
  FROM {outbox_waiting} w WHERE w.position = $1 AND w.destination = $2

-- name: follow
INSERT INTO {outbox_waiting} (position, lane, {message}, destination, due_at)
SELECT w.position, w.lane, {message "w"}, $3, CASE WHEN w.{key} = '' THEN {now} END
  FROM {listed_waiting}
ON DUPLICATE KEY UPDATE {outbox_waiting}.position = {outbox_waiting}.position

-- name: delete_waiting
DELETE w FROM {listed_waiting}
