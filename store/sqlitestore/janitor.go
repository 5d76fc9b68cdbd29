package sqlitestore

import (
	"github.com/waybill-go/waybill/internal/sqlstore"
	"github.com/waybill-go/waybill/janitor"
)

// There is one writer at a time, so nothing happens between these.
const (
	expiredLettersSQL = `SELECT d.number` + sqlstore.ExpiredLetters + ` ORDER BY d.number LIMIT $3`

	purgeRecordsSQL = `
DELETE FROM {inbox}
 WHERE dead AND (` + sqlstore.KeyColumns + `) IN (
    SELECT ` + sqlstore.KeyColumns + ` FROM {dead_letters}
     WHERE number IN (SELECT value FROM json_each($1)) AND origin = 'consumer' AND message_key <> '')`

	// releaseRecordSQL lets the record of a letter that is deleted expire.
	releaseRecordSQL = `
UPDATE {inbox} SET dead = 0
 WHERE dead AND (` + sqlstore.KeyColumns + `) IN (
    SELECT ` + sqlstore.KeyColumns + ` FROM {dead_letters} WHERE number = $1 AND origin = 'consumer' AND message_key <> '')`

	purgeLettersSQL = `DELETE FROM {dead_letters} WHERE number IN (SELECT value FROM json_each($1))`

	expiredSagasSQL = `SELECT number FROM {sagas} WHERE ` + sqlstore.ExpiredSagas + ` LIMIT $3`
	purgeSagaLogSQL = `DELETE FROM {saga_log} WHERE number IN (SELECT value FROM json_each($1))`
	purgeSagasSQL   = `DELETE FROM {sagas} WHERE number IN (SELECT value FROM json_each($1))`
)

func cleanupStatements(n names) sqlstore.Cleanup {
	r := n.render
	purge := func(table, key, expired string) string {
		return r(`DELETE FROM ` + table + ` WHERE (` + key + `) IN (SELECT ` + key + ` FROM ` + table + ` WHERE ` + expired + ` LIMIT $3)`)
	}
	return sqlstore.Cleanup{
		Count: sqlstore.CountStatements(r),
		Purge: map[janitor.Kind]string{
			janitor.Inbox:     purge("{inbox}", sqlstore.KeyColumns, sqlstore.ExpiredInbox),
			janitor.Attempts:  purge("{consumer_attempts}", sqlstore.KeyColumns, sqlstore.ExpiredAttempts),
			janitor.Leases:    purge("{inbox_leases}", "key", sqlstore.ExpiredLeases),
			janitor.Audit:     purge("{audit_log}", "number", sqlstore.ExpiredAudit),
			janitor.Responses: purge("{idempotency_responses}", "key", sqlstore.ExpiredResponses),
		},
		ExpiredLetters: r(expiredLettersSQL), PurgeRecords: r(purgeRecordsSQL), PurgeLetters: r(purgeLettersSQL),
		NoteCleanup: r(sqlstore.NoteCleanupSQL), ExpiredSagas: r(expiredSagasSQL), PurgeSagaLog: r(purgeSagaLogSQL), PurgeSagas: r(purgeSagasSQL),
	}
}
