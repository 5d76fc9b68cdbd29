package sqlitestore

import (
	"github.com/waybill-go/waybill/internal/sqlstore"
	"github.com/waybill-go/waybill/janitor"
)

// Which rows are past their retention, of $1 milliseconds, and belong to the tenant $2.
const (
	pastRetention = ` <= {now} - CAST($1 * 1000 AS INTEGER)`

	// Records of dead letters stay until these go. Served by the index on the time.
	expiredInbox = `NOT dead AND processed_at` + pastRetention + ` AND ($2 = '' OR tenant = $2)`

	// A message whose next attempt is still to come has not failed to come back.
	expiredAttempts = `due_at` + pastRetention + ` AND ($2 = '' OR tenant = $2)`

	expiredAudit = `at` + pastRetention + ` AND $2 = ''`

	// A letter is settled after it has failed. Served by the index on the last failure.
	expiredLetters = `
  FROM {dead_letters} AS d
 WHERE d.requeued_at IS NULL AND d.last_failed_at` + pastRetention + ` AND coalesce(d.resolved_at, d.last_failed_at)` + pastRetention + `
   AND ($2 = '' OR d.tenant = $2)
   AND NOT (d.parks AND EXISTS (SELECT 1 FROM {outbox_waiting} w
        WHERE w.topic = d.topic AND w.key = d.key AND w.key <> '' AND NOT w.alone AND w.destination = d.destination AND w.position > d.position))`
)

// There is one writer at a time, so nothing happens between these.
const (
	expiredLettersSQL = `SELECT d.number` + expiredLetters + ` ORDER BY d.number LIMIT $3`

	purgeRecordsSQL = `
DELETE FROM {inbox}
 WHERE dead AND (` + keyColumns + `) IN (
    SELECT ` + keyColumns + ` FROM {dead_letters}
     WHERE number IN (SELECT value FROM json_each($1)) AND origin = 'consumer' AND message_key <> '')`

	purgeLettersSQL = `DELETE FROM {dead_letters} WHERE number IN (SELECT value FROM json_each($1))`

	noteCleanupSQL = `INSERT INTO {audit_log} (at, action, actor, detail) VALUES ({now}, 'cleanup', 'janitor', $1)`
)

const keyColumns = `tenant, consumer, source, alias, message_key`

func cleanupStatements(n names) sqlstore.Cleanup {
	r := n.render
	count := func(table, expired string) string { return r(`SELECT count(*) FROM ` + table + ` WHERE ` + expired) }
	purge := func(table, key, expired string) string {
		return r(`DELETE FROM ` + table + ` WHERE (` + key + `) IN (SELECT ` + key + ` FROM ` + table + ` WHERE ` + expired + ` LIMIT $3)`)
	}
	return sqlstore.Cleanup{
		Count: map[janitor.Kind]string{
			janitor.Inbox:    count("{inbox}", expiredInbox),
			janitor.Attempts: count("{consumer_attempts}", expiredAttempts),
			janitor.Letters:  r(`SELECT count(*)` + expiredLetters),
			janitor.Audit:    count("{audit_log}", expiredAudit),
		},
		Purge: map[janitor.Kind]string{
			janitor.Inbox:    purge("{inbox}", keyColumns, expiredInbox),
			janitor.Attempts: purge("{consumer_attempts}", keyColumns, expiredAttempts),
			janitor.Audit:    purge("{audit_log}", "number", expiredAudit),
		},
		ExpiredLetters: r(expiredLettersSQL), PurgeRecords: r(purgeRecordsSQL), PurgeLetters: r(purgeLettersSQL),
		NoteCleanup: r(noteCleanupSQL),
	}
}
