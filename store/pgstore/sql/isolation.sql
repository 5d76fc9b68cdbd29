-- name: default_isolation
SELECT current_setting('default_transaction_isolation') = 'read committed'
