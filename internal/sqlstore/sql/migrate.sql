-- name: read_version
SELECT coalesce(max(version), 0) FROM {schema_versions}

-- name: set_source
ALTER TABLE {outbox} ALTER COLUMN source SET DEFAULT {source}
