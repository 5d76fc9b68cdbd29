-- name: partitions
-- Lists the archive's partitions, the default one among them.
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = $1::text::regclass

-- The purges delete a batch by place: no other statement changes these rows. They are
-- found by the primary key, which begins with the time, and by the index on the time.

-- name: purge_rest
DELETE FROM {outbox_archive_rest} WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {outbox_archive_rest} WHERE published_at <= (SELECT {clock}()) - $1 * interval '1 millisecond' LIMIT $2))

-- name: purge_ids
DELETE FROM {outbox_ids} WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {outbox_ids} WHERE enqueued_at <= (SELECT {clock}()) - $1 * interval '1 millisecond' LIMIT $2))

-- name: short_lock
-- For statements that need an exclusive lock on the archive or a part of it. While one waits for
-- its lock, settlements wait behind it.
SET LOCAL lock_timeout = '100ms'

-- name: add_day
-- Creates a partition without a lock that settlements would wait for, which CREATE TABLE …
-- PARTITION OF takes. Partitions inherit no storage parameters. Rows of a day are never changed and
-- leave with their table: there is nothing to vacuum, except for the age of transaction ids, which
-- the server watches anyway.
SELECT {add_archive_day}('{day}')

-- name: drop_day
SELECT {drop_archive_day}('{day}')

-- name: published_at
-- Walks the archive's primary key: there is no index on the id.
SELECT published_at FROM {outbox_archive}
 WHERE id = $1 AND published_at >= (SELECT {clock}()) - $2 * interval '1 millisecond'
 ORDER BY published_at LIMIT 1

-- name: published_since
-- Reads on from there, on the same key. A message with several destinations is returned for each.
SELECT {message} FROM {outbox_archive}
 WHERE published_at >= $1 AND topic = ANY ($2::text[])
 ORDER BY published_at, position, destination
