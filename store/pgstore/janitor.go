package pgstore

import (
	"github.com/waybill-go/waybill/internal/sqlstore"
	"github.com/waybill-go/waybill/janitor"
)

// Which rows are past their retention, of $1 milliseconds, and belong to the tenant $2.
const (
	pastRetention = ` <= (SELECT {clock}()) - $1 * interval '1 millisecond'`

	// Records of dead letters stay until these go. Served by the index on the time.
	expiredInbox = `NOT dead AND processed_at` + pastRetention + ` AND ($2 = '' OR tenant = $2)`

	// A message whose next attempt is still to come has not failed to come back.
	expiredAttempts = `due_at` + pastRetention + ` AND ($2 = '' OR tenant = $2)`

	// What somebody has, or what waits, is not overtaken by its retention. Served by the index on
	// first_seen: what was last seen before a time was first seen before it.
	expiredLeases = `first_seen` + pastRetention + ` AND last_seen` + pastRetention + `
   AND coalesce(coalesce(lease_until, due_at) <= (SELECT {clock}()), true) AND $2::text = ''`

	// Served by the index on ended_at.
	expiredSagas = `ended_at` + pastRetention + ` AND ($2 = '' OR tenant = $2)`

	expiredAudit = `at` + pastRetention + ` AND $2::text = ''`

	// Served by the index on expires_at.
	expiredResponses = `expires_at` + pastRetention + ` AND $2::text = ''`

	// behindLetter is true for a letter that messages wait behind. Served by the index on the
	// units.
	behindLetter = `(d.parks AND EXISTS (SELECT 1 FROM {outbox_waiting} w
        WHERE w.topic = d.topic AND w.key = d.key AND w.key <> '' AND NOT w.alone AND w.destination = d.destination AND w.position > d.position))`

	// A letter is settled after it has failed. Served by the index on the last failure.
	expiredLetters = `
  FROM {dead_letters} d
 WHERE d.requeued_at IS NULL AND d.last_failed_at` + pastRetention + ` AND coalesce(d.resolved_at, d.last_failed_at)` + pastRetention + `
   AND ($2 = '' OR d.tenant = $2) AND NOT ` + behindLetter
)

// The statements for letters. The first locks what it returns, so that nobody can requeue it
// or put something behind it; the last then looks once more, with a snapshot of its own, for
// what was put there before the lock.
const (
	lockExpiredLettersSQL = `SELECT d.number` + expiredLetters + ` ORDER BY d.number LIMIT $3 FOR UPDATE OF d SKIP LOCKED`

	purgeRecordsSQL = `
WITH compact AS (
    DELETE FROM {inbox_compact} c USING {dead_letters} d
     WHERE d.number = ANY ($1) AND d.origin = 'consumer' AND d.message_key <> '' AND c.dead
       AND c.key = {inbox_key}(d.tenant, d.consumer, d.source, d.alias, d.message_key)
)
DELETE FROM {inbox} i USING {dead_letters} d
 WHERE d.number = ANY ($1) AND d.origin = 'consumer' AND d.message_key <> '' AND i.dead
   AND i.tenant = d.tenant AND i.consumer = d.consumer AND i.source = d.source AND i.alias = d.alias AND i.message_key = d.message_key`

	// releaseRecordSQL does for one letter that is deleted what lets its record expire.
	releaseRecordSQL = `
WITH compact AS (
    UPDATE {inbox_compact} c SET dead = false FROM {dead_letters} d
     WHERE d.number = $1 AND d.origin = 'consumer' AND d.message_key <> '' AND c.dead
       AND c.key = {inbox_key}(d.tenant, d.consumer, d.source, d.alias, d.message_key)
)
UPDATE {inbox} i SET dead = false FROM {dead_letters} d
 WHERE d.number = $1 AND d.origin = 'consumer' AND d.message_key <> '' AND i.dead
   AND i.tenant = d.tenant AND i.consumer = d.consumer AND i.source = d.source AND i.alias = d.alias AND i.message_key = d.message_key`

	purgeLettersSQL = `DELETE FROM {dead_letters} d WHERE d.number = ANY ($1) AND NOT ` + behindLetter

	noteCleanupSQL = `INSERT INTO {audit_log} (action, actor, detail) VALUES ('cleanup', 'janitor', $1)`
)

// The statements for sagas. An instance that is locked is somebody's who handles a message for it.
const (
	expiredSagasSQL = `SELECT number FROM {sagas} WHERE ` + expiredSagas + ` LIMIT $3 FOR UPDATE SKIP LOCKED`
	purgeSagaLogSQL = `DELETE FROM {saga_log} WHERE number = ANY ($1)`
	purgeSagasSQL   = `DELETE FROM {sagas} WHERE number = ANY ($1)`
)

// purgeSQL deletes a batch by place. What another transaction has locked is left out: a row
// that is being changed is not past its retention, or is somebody else's to remove.
func purgeSQL(table, expired string) string {
	return `DELETE FROM ` + table + ` WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM ` + table + ` WHERE ` + expired + ` LIMIT $3 FOR UPDATE SKIP LOCKED))`
}

// purgeResponsesSQL finds rows by their key, so that no right to read a response is needed.
const purgeResponsesSQL = `DELETE FROM {idempotency_responses} WHERE key = ANY (ARRAY(
    SELECT key FROM {idempotency_responses} WHERE ` + expiredResponses + ` LIMIT $3 FOR UPDATE SKIP LOCKED))`

// The statements for the inbox are about both of its forms. The number of rows that the second
// returns is that of the records it has removed.
const (
	expiredCompact = `NOT dead AND processed_at` + pastRetention + `
   AND ($2 = '' OR scope IN (SELECT id FROM {inbox_scopes} WHERE tenant = $2))`

	countInboxSQL = `
SELECT (SELECT count(*) FROM {inbox} WHERE ` + expiredInbox + `) + (SELECT count(*) FROM {inbox_compact} WHERE ` + expiredCompact + `)`

	purgeInboxSQL = `
WITH plain AS (
    DELETE FROM {inbox} WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {inbox} WHERE ` + expiredInbox + ` LIMIT $3 FOR UPDATE SKIP LOCKED)) RETURNING 1
), compact AS (
    DELETE FROM {inbox_compact} WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {inbox_compact} WHERE ` + expiredCompact + `
         LIMIT $3 - (SELECT count(*) FROM plain) FOR UPDATE SKIP LOCKED)) RETURNING 1
)
SELECT 1 FROM plain UNION ALL SELECT 1 FROM compact`
)

func cleanupStatements(n names) sqlstore.Cleanup {
	r := renderer(n)
	count := func(table, expired string) string { return r(`SELECT count(*) FROM ` + table + ` WHERE ` + expired) }
	purge := func(table, expired string) string { return r(purgeSQL(table, expired)) }
	lock := func(kind janitor.Kind) string { return tryLockSQL(n, string(kind)) }
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
		Count: sqlstore.ByEveryKind{ByKind: sqlstore.ByKind{
			Inbox:     r(countInboxSQL),
			Attempts:  count("{consumer_attempts}", expiredAttempts),
			Leases:    count("{inbox_leases}", expiredLeases),
			Audit:     count("{audit_log}", expiredAudit),
			Responses: count("{idempotency_responses}", expiredResponses),
		},
			Letters: r(`SELECT count(*)` + expiredLetters),
			Sagas:   count("{sagas}", expiredSagas),
		},
		Purge: sqlstore.ByKind{
			Inbox:     r(purgeInboxSQL),
			Attempts:  purge("{consumer_attempts}", expiredAttempts),
			Leases:    purge("{inbox_leases}", expiredLeases),
			Responses: r(purgeResponsesSQL),
			Audit:     r(`SELECT {purge_audit}($1, $3) WHERE $2::text = ''`)},
		ExpiredLetters: r(lockExpiredLettersSQL), PurgeRecords: r(purgeRecordsSQL), PurgeLetters: r(purgeLettersSQL),
		NoteCleanup: r(noteCleanupSQL), ExpiredSagas: r(expiredSagasSQL), PurgeSagaLog: r(purgeSagaLogSQL), PurgeSagas: r(purgeSagasSQL),
	}
}
