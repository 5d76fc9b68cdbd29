-- The purges delete a batch. Several relays may run them at once: SQLite has only one writer. No
-- index serves them, so each look walks the table from its oldest rows on.

-- name: purge_archive
DELETE FROM {outbox_archive} WHERE rowid IN (
    SELECT rowid FROM {outbox_archive} WHERE published_at <= {now} - CAST($1 * 1000 AS INTEGER) LIMIT $2)

-- name: purge_ids
DELETE FROM {outbox_ids} WHERE id IN (
    SELECT id FROM {outbox_ids} WHERE enqueued_at <= {now} - CAST($1 * 1000 AS INTEGER) LIMIT $2)
