package mysqlstore

import (
	"strings"

	"github.com/waybill-go/waybill/internal/sqlstore"
	"github.com/waybill-go/waybill/janitor"
)

// The statements for letters. The first locks what it returns, so that nobody can requeue it
// or put something behind it; the last then looks once more for what was put there before the
// lock.
const (
	lockExpiredLettersSQL = `SELECT d.number` + sqlstore.ExpiredLetters + ` ORDER BY d.number LIMIT $3 FOR UPDATE SKIP LOCKED`

	purgeRecordsSQL = `
DELETE i FROM ` + listed + `
  STRAIGHT_JOIN {dead_letters} d FORCE INDEX (PRIMARY) ON d.number = n.number
  STRAIGHT_JOIN {inbox} i FORCE INDEX (PRIMARY)
        ON i.tenant = d.tenant AND i.consumer = d.consumer AND i.source = d.source AND i.alias = d.alias AND i.message_key = d.message_key
 WHERE d.origin = 'consumer' AND d.message_key <> '' AND i.dead`

	// releaseRecordSQL lets the record of a letter that is deleted expire.
	releaseRecordSQL = `
UPDATE {dead_letters} d
  STRAIGHT_JOIN {inbox} i FORCE INDEX (PRIMARY)
        ON i.tenant = d.tenant AND i.consumer = d.consumer AND i.source = d.source AND i.alias = d.alias AND i.message_key = d.message_key
   SET i.dead = 0
 WHERE d.number = $1 AND d.origin = 'consumer' AND d.message_key <> '' AND i.dead`

	purgeLettersSQL = `
DELETE d FROM ` + listed + ` STRAIGHT_JOIN {dead_letters} d FORCE INDEX (PRIMARY) ON d.number = n.number
 WHERE NOT ` + sqlstore.BehindLetter
)

// The statements for sagas. An instance that is locked is somebody's who handles a message for it.
const (
	expiredSagasSQL = `
SELECT number FROM {sagas} FORCE INDEX (by_time) WHERE ` + sqlstore.ExpiredSagas + ` LIMIT $3 FOR UPDATE SKIP LOCKED`

	purgeSagaLogSQL = `DELETE l FROM ` + listed + ` STRAIGHT_JOIN {saga_log} l FORCE INDEX (PRIMARY) ON l.number = n.number`
	purgeSagasSQL   = `DELETE s FROM ` + listed + ` STRAIGHT_JOIN {sagas} s FORCE INDEX (PRIMARY) ON s.number = n.number`
)

// purgeSQL deletes rows by their key, which it finds along the index by_time: what is in use is
// younger. The server makes a table of the keys first, because they have a LIMIT.
func purgeSQL(table, key, expired string) string {
	var same []string
	for column := range strings.SplitSeq(key, ", ") {
		same = append(same, "d."+column+" = k."+column)
	}
	return `
DELETE d FROM (SELECT ` + key + ` FROM ` + table + ` FORCE INDEX (by_time) WHERE ` + expired + `) k
  STRAIGHT_JOIN ` + table + ` d FORCE INDEX (PRIMARY) ON ` + strings.Join(same, " AND ")
}

// purgeKeysSQL is purgeSQL for rows that others change: it leaves out what they have locked, and so
// waits for nobody who waits for it.
func purgeKeysSQL(table, expired string) string {
	return purgeSQL(table, "{key}", expired+` LIMIT $3 FOR UPDATE SKIP LOCKED`)
}

func cleanupStatements(n names) sqlstore.Cleanup {
	r := n.render
	lock := func(kind janitor.Kind) string { return r(tryLockSQL(string(kind))) }
	return sqlstore.Cleanup{
		Lock: sqlstore.ByEveryKind{ByKind: sqlstore.ByKind{
			Inbox:     lock(janitor.Inbox),
			Attempts:  lock(janitor.Attempts),
			Leases:    lock(janitor.Leases),
			Audit:     lock(janitor.Audit),
			Responses: lock(janitor.Responses),
		},
			Letters: lock(janitor.Letters),
			Sagas:   lock(janitor.Sagas),
		},
		Count: sqlstore.CountStatements(r),
		Purge: sqlstore.ByKind{
			Inbox:     r(purgeSQL("{inbox}", sqlstore.KeyColumns, sqlstore.ExpiredInbox+` LIMIT $3`)),
			Attempts:  r(purgeSQL("{consumer_attempts}", sqlstore.KeyColumns, sqlstore.ExpiredAttempts+` LIMIT $3`)),
			Leases:    r(purgeKeysSQL("{inbox_leases}", sqlstore.ExpiredLeases)),
			Responses: r(purgeKeysSQL("{idempotency_responses}", sqlstore.ExpiredResponses)),
			Audit:     r(purgeSQL("{audit_log}", "number", sqlstore.ExpiredAudit+` LIMIT $3`))},
		ExpiredLetters: r(lockExpiredLettersSQL), PurgeRecords: r(purgeRecordsSQL), PurgeLetters: r(purgeLettersSQL),
		NoteCleanup: r(sqlstore.NoteCleanupSQL), ExpiredSagas: r(expiredSagasSQL), PurgeSagaLog: r(purgeSagaLogSQL), PurgeSagas: r(purgeSagasSQL),
	}
}
