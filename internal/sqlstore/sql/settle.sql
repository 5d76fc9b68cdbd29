-- The statements that are the same in every store that settles by row.

-- name: archive_waiting
INSERT INTO {outbox_archive} (published_at, position, destination, attempts, life, {message})
SELECT {now}, w.position, w.destination, w.attempts, w.life, {message "w"}
  FROM {listed_waiting}

-- name: schedule
INSERT INTO {scheduled} (position, {message}, due_at)
SELECT w.position, {message "w"}, w.deliver_at FROM {outbox_waiting} w WHERE w.position = $1 AND w.destination = $2

-- fragment: letter_again
-- The number of the dead letter that a waiting row, w, is to be: the one it had before
-- it was requeued, or NULL for the next.
CASE WHEN NOT EXISTS (SELECT 1 FROM {dead_letters} d WHERE d.number = w.letter) THEN w.letter END
