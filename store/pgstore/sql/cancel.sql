-- Settlements of what is published do not lock the lane that cancel_lock_lane locks. What is published meanwhile
-- is gone when it is to become a letter.

-- name: cancel_lock_scheduled
-- There is none: cancel_refuse deletes the row.

-- name: cancel_remove
-- There is none: cancel_refuse deletes the row.
