-- name: create_versions
CREATE TABLE IF NOT EXISTS {schema_versions} (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    applied_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT

-- name: set_source
UPDATE {settings} SET source = $1

-- name: versions_exist
SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = $1)
