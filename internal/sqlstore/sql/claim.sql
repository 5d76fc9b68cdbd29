-- name: ahead_range
-- Returns the first position above one and the last one. Served by the primary key.
SELECT (SELECT min(position) FROM {outbox} WHERE position > $1), (SELECT max(position) FROM {outbox})
