-- Settlements of what is published do not lock the lane that cancel_lock_lane locks. What is published
-- meanwhile is gone when it is to become a dead letter.

-- name: cancel_lock_scheduled
-- Not needed: cancel_refuse deletes the row.

-- name: cancel_remove
-- Not needed: cancel_refuse deletes the row.
