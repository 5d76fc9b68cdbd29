-- name: durability
SELECT CAST(@@GLOBAL.innodb_flush_log_at_trx_commit AS CHAR), CAST(@@GLOBAL.sync_binlog AS CHAR), CAST(@@GLOBAL.log_bin AS CHAR)
