-- name: audit
-- For a store without a default for the time of an entry.
INSERT INTO {audit_log} (at, action, actor, why, letter, message_id, replay, detail) VALUES ({now}, $1, $2, $3, $4, $5, $6, $7)

-- name: list_audit
SELECT number, at, action, actor, why, letter, message_id, replay, detail FROM {audit_log}
