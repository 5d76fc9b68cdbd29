-- name: fence
-- Run in a transaction that has the write lock: no lane changes hands before it ends.
SELECT lane, epoch FROM {relay_lanes} WHERE owner = $1

-- The statements about what came straight from the outbox and is published take the positions
-- of all that have one destination at once, and then all positions.

-- name: archive
INSERT INTO {outbox_archive} (published_at, position, destination, {message})
SELECT {now}, o.position, $2, {message "o"}
  FROM json_each($1) p JOIN {outbox} o ON o.position = p.value

-- name: remove
DELETE FROM {outbox} WHERE position IN (SELECT value FROM json_each($1))

-- name: delete_waiting
DELETE FROM {outbox_waiting} WHERE position IN (SELECT value FROM json_each($1)) AND destination = $2

-- fragment: listed_waiting
-- The waiting rows w of the positions $1 and the destination $2. Where ON CONFLICT follows a join there must be a
-- WHERE between them, or SQLite parses ON as the join's.
json_each($1) p JOIN {outbox_waiting} w ON w.position = p.value AND w.destination = $2

-- The statements about waiting rows take positions, or a position, as $1, and their destination as $2. See settleplan.Plan for what
-- each is to do.

-- name: park
INSERT INTO {outbox_waiting} (position, {message}, destination, due_at, attempts, life, error, first_failed_at, alone, history)
SELECT o.position, {message "o"}, $2,
       CASE WHEN $3 OR NOT $8 AND {behind "o" "$2"} THEN NULL ELSE {now} + CAST($4 * 1000 AS INTEGER) END,
       $5, $6, $7, CASE WHEN $5 > 0 THEN {now} END, $8, CASE WHEN $5 > 0 THEN {with_attempt "NULL" "$9" "$10" "$7"} END
  FROM json_each($1) p JOIN {outbox} o ON o.position = p.value
 WHERE true
ON CONFLICT DO NOTHING

-- name: retry
UPDATE {outbox_waiting} AS w
   SET due_at = CASE WHEN $3 OR NOT $8 AND {behind "w" "w.destination"} THEN NULL ELSE {now} + CAST($4 * 1000 AS INTEGER) END,
       alone = $8, attempts = $5, life = $6, error = CASE WHEN $3 AND $7 = '' THEN w.error ELSE $7 END,
       first_failed_at = CASE WHEN $5 > 0 THEN coalesce(w.first_failed_at, {now}) END,
       history = CASE WHEN $5 > w.attempts THEN {with_attempt "w.history" "$9" "$10" "$7"} ELSE w.history END
 WHERE w.position = $1 AND w.destination = $2

-- name: bury
INSERT INTO {dead_letters} (number, origin, position, destination, life, replay, {message}, reason, error, attempts, failed, parks, fingerprint, history, first_failed_at, last_failed_at)
SELECT {letter_again}, 'relay', w.position, w.destination, w.life, w.replay, {message "w"}, $3, $4, $5, $6, $7, $8,
       CASE WHEN $5 > w.attempts THEN {with_attempt "w.history" "$9" "$10" "$4"} ELSE w.history END, coalesce(w.first_failed_at, {now}), {now}
  FROM {outbox_waiting} w WHERE w.position = $1 AND w.destination = $2

-- name: follow
INSERT INTO {outbox_waiting} (position, {message}, destination, due_at)
SELECT w.position, {message "w"}, $3, CASE WHEN w.key = '' THEN {now} END
  FROM {listed_waiting}
 WHERE true
ON CONFLICT DO NOTHING
