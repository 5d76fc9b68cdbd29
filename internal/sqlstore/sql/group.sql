-- name: fold_due
-- For a store without sums: only fingerprints may be missing.
SELECT EXISTS (SELECT 1 FROM {dead_letters} WHERE fingerprint = '')

-- name: nameless
SELECT number, origin, CASE origin WHEN 'relay' THEN topic ELSE consumer END, CASE WHEN type = '' THEN topic ELSE type END, error
  FROM {dead_letters} WHERE fingerprint = '' ORDER BY number LIMIT 10000
