-- name: durability
SELECT current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
       current_setting('fsync'), current_setting('full_page_writes')
