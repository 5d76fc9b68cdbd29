-- name: lock
-- Writes nothing, and takes the write lock. It is the first statement of each of the store's
-- transactions, so that they wait for each other at their start however the driver begins them: a
-- transaction that reads first cannot wait for the lock later, because what it has read may have
-- changed.
DELETE FROM {schema_versions} WHERE 0
