-- name: fold_due
-- Of a store without sums: all there is to do is to name letters.
SELECT EXISTS (SELECT 1 FROM {dead_letters} WHERE fingerprint = '')
