-- Rows of traffic are added and removed, and never changed. Each statement is served by the primary key.

-- name: traffic_add
{add_traffic} ON CONFLICT DO NOTHING

-- fragment: add_traffic
INSERT INTO {traffic} (step, began_at, writer, data) VALUES ($1, $2, $3, $4)

-- name: traffic_list
SELECT step, began_at, writer, data FROM {traffic} WHERE step = $1 AND began_at >= $2 AND began_at < $3 ORDER BY began_at, writer

-- name: traffic_remove
-- Of two processes that replace the same rows the second waits for the first, and removes none.
DELETE FROM {traffic} WHERE step = $1 AND began_at = $2 AND writer = $3
