-- name: fold_due
-- Of a store without sums: all there is to do is to name letters.
SELECT EXISTS (SELECT 1 FROM {dead_letters} WHERE fingerprint = '')

-- name: nameless
SELECT number, origin, CASE origin WHEN 'relay' THEN topic ELSE consumer END, CASE WHEN type = '' THEN topic ELSE type END, error
  FROM {dead_letters} WHERE fingerprint = '' ORDER BY number LIMIT 10000
