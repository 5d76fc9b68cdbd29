package sqlitestore

import (
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// statements are the SQL texts that only this store runs, with its names rendered in.
type statements struct {
	enqueue, addUnique                                   string
	claimWaiting, claimReady, anyDue                     string
	aheadRange, claimAhead                               string
	settle                                               sqlstore.SettleStatements
	dueScheduled, releaseOne, refuseDue, removeScheduled string
	countParked                                          string
}

func newStatements(n names) statements {
	r := n.render
	return statements{
		enqueue: r(enqueueSQL), addUnique: r(addUniqueSQL),
		claimWaiting: r(claimWaitingSQL), claimReady: r(claimReadySQL), anyDue: r(sqlstore.AnyDueSQL),
		aheadRange: r(aheadRangeSQL), claimAhead: r(claimAheadSQL),
		settle:       settleStatements(r),
		dueScheduled: r(dueScheduledSQL), releaseOne: r(releaseOneSQL), refuseDue: r(sqlstore.RefuseDueSQL), removeScheduled: r(sqlstore.RemoveScheduledSQL),
		countParked: r(countParkedSQL),
	}
}

func coreStatements(n names) sqlstore.Statements {
	r := n.render
	return sqlstore.Statements{
		Gate: r(gateSQL), GateDead: r(gateDeadSQL), GateOutcome: r(gateOutcomeSQL), FindRecord: r(findRecordSQL),
		ReadAttempts: r(readAttemptsSQL), SaveAttempt: r(saveAttemptsSQL), ClearAttempts: r(clearAttemptsSQL),
		SaveStarts: r(saveStartsSQL), ClearStarts: r(clearStartsSQL),
		AddLetter: r(addLetterSQL), AnyRequeued: r(sqlstore.AnyRequeuedSQL), TakeRequeued: r(takeRequeuedSQL), HoldRequeued: r(holdRequeuedSQL), RemoveLetter: r(removeLetterSQL),
		Revive: r(reviveSQL), FailRequeued: r(failRequeuedSQL),
		ListLetters: r(sqlstore.ListLettersSQL), ShowLetter: r(sqlstore.ShowLetterSQL), LockLetter: r(lockLetterSQL), LetterWaits: r(sqlstore.LetterWaitsSQL),
		PendsBefore: r(pendsBeforeSQL), RequeueRelay: r(requeueRelaySQL), RequeueConsumer: r(sqlstore.RequeueConsumerSQL),
		SettleLetter: r(sqlstore.SettleLetterSQL), ReleaseUnit: r(releaseSQL), RestoreLetter: r(sqlstore.RestoreLetterSQL), ReleaseRecord: r(releaseRecordSQL),
		CopyToWaiting: r(copyToWaitingSQL), CopyLetter: r(copyLetterSQL), Audit: r(sqlstore.AuditSQL), ListAudit: r(sqlstore.ListAuditSQL),
		ListGroups: r(listGroupsSQL), FoldDue: r(foldDueSQL), TryFold: tryFoldSQL,
		Nameless: r(namelessSQL), SetFingerprints: r(setFingerprintsSQL),
		Join: r(joinSQL), Renew: r(renewSQL), Reap: r(reapSQL), CutLeases: r(cutLeasesSQL), FreeLanes: r(freeLanesSQL), GiveLanes: r(giveLanesSQL),
		TakeLanes: r(takeLanesSQL), OwnLanes: r(ownLanesSQL), LeaveLanes: r(leaveLanesSQL), Leave: r(leaveSQL),
		Replays:       replayStatements(r),
		Schedules:     scheduleStatements(r),
		Sagas:         sagaStatements(r),
		Cancel:        cancelStatements(r),
		MessageStates: r(messageStatesSQL), OutboxStats: r(outboxStatsSQL), OutboxBacklog: r(outboxBacklogSQL),
		OutboxMessages: r(outboxMessagesSQL), PublishedMessages: r(sqlstore.PublishedMessagesSQL),
		RelayStates: r(sqlstore.RelayStatesSQL), InboxStates: r(sqlstore.InboxStatesSQL), InboxSize: r(sqlstore.InboxSizeSQL),
		Leases:    leaseStatements(r),
		Offsets:   sqlstore.OffsetStatementsOf(r, "ON CONFLICT DO NOTHING"),
		Responses: sqlstore.ResponseStatementsOf(r, "CAST($3 * 1000 AS INTEGER)", sqlstore.ReplaceResponse),
		Cleanup:   cleanupStatements(n),
	}
}

// The gate decides who handles a message. It is the first statement of its transaction,
// which has the write lock: a concurrent one waits for the lock, and then sees the outcome.
const (
	gateSQL = `
INSERT INTO {inbox} (tenant, consumer, source, alias, message_key, message_id, type, payload_hash, extra_data, processed_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, {now})
ON CONFLICT DO NOTHING`

	gateDeadSQL = `
INSERT INTO {inbox} (tenant, consumer, source, alias, message_key, message_id, type, payload_hash, extra_data, processed_at, dead)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, {now}, 1)
ON CONFLICT DO NOTHING`

	gateOutcomeSQL = `SELECT dead, coalesce(payload_hash, '') FROM {inbox} WHERE ` + sqlstore.InboxKey

	readAttemptsSQL = `SELECT attempts, max(0, due_at - {now}) / 1000.0, starts, error FROM {consumer_attempts} WHERE ` + sqlstore.InboxKey

	clearAttemptsSQL = `DELETE FROM {consumer_attempts} WHERE ` + sqlstore.InboxKey
)

var saveAttemptsSQL = `
INSERT INTO {consumer_attempts} AS a (tenant, consumer, source, alias, message_key, attempts, due_at, error, first_failed_at, updated_at, history)
VALUES ($1, $2, $3, $4, $5, $6, {now} + CAST($7 * 1000 AS INTEGER), $8, {now}, {now}, ` + withAttempt("NULL", "$9", "$10", "$8") + `)
ON CONFLICT DO UPDATE
   SET attempts = excluded.attempts, due_at = excluded.due_at, error = excluded.error, updated_at = excluded.updated_at, starts = 0,
       first_failed_at = CASE WHEN a.attempts = 0 THEN excluded.first_failed_at ELSE a.first_failed_at END,
       history = CASE WHEN excluded.attempts > a.attempts THEN ` + withAttempt("a.history", "$9", "$10", "$8") + ` ELSE a.history END`

var addLetterSQL = `
WITH past AS (
    SELECT first_failed_at, history FROM {consumer_attempts}
     WHERE tenant = $11 AND consumer = $1 AND source = $12 AND alias = $2 AND message_key = $3
)
INSERT INTO {dead_letters} (origin, consumer, alias, message_key, reason, error, attempts, failed, fingerprint, history,
    first_failed_at, last_failed_at, enqueued_at, ` + sqlstore.MessageFields + `)
SELECT 'consumer', $1, $2, $3, $4, $5, $6, $7, $8, ` + withAttempt("(SELECT history FROM past)", "$9", "$10", "$5") + `,
    coalesce((SELECT first_failed_at FROM past), {now}), {now}, {now}, ` + sqlstore.MessageParams(13)

// The statements of a requeued letter's second chance, in a transaction that has the write
// lock.
const (
	takeRequeuedSQL = `
UPDATE {dead_letters} SET requeued_at = {now} + CAST($2 * 1000 AS INTEGER)
 WHERE number = (SELECT number FROM {dead_letters} WHERE consumer = $1 AND requeued_at <= {now} ORDER BY number LIMIT 1)
RETURNING number, alias, message_key, {message}`

	holdRequeuedSQL = `SELECT number FROM {dead_letters} WHERE number = $1 AND requeued_at IS NOT NULL`

	removeLetterSQL = `DELETE FROM {dead_letters} WHERE number = $1`

	reviveSQL = `UPDATE {inbox} SET dead = 0, processed_at = {now} WHERE ` + sqlstore.InboxKey
)

// failRequeuedSQL makes the letter a dead one again ($4), or lets it wait ($5 ms).
var failRequeuedSQL = `
UPDATE {dead_letters}
   SET error = $2, reason = $3, last_failed_at = {now}, attempts = attempts + $4,
       requeued_at = CASE WHEN $4 THEN NULL ELSE {now} + CAST($5 * 1000 AS INTEGER) END, fingerprint = $6,
       history = CASE WHEN $4 THEN ` + withAttempt("history", "$7", "$8", "$2") + ` ELSE history END
 WHERE number = $1`

const (
	joinSQL = `INSERT INTO {relays} (node, started_at, expires_at, lease_ms) VALUES ($1, {now}, {now} + CAST($2 * 1000 AS INTEGER), $2) ON CONFLICT DO NOTHING`

	// renewSQL changes no row if others have seen the lease expire.
	renewSQL = `UPDATE {relays} SET expires_at = {now} + CAST($2 * 1000 AS INTEGER), lease_ms = $2 WHERE node = $1`

	// possible is the latest time until which a lease may be now.
	possible     = `{now} + CAST(lease_ms * 1000 AS INTEGER)`
	cutLeasesSQL = `UPDATE {relays} SET expires_at = ` + possible + ` WHERE expires_at > ` + possible

	reapSQL      = `DELETE FROM {relays} WHERE expires_at <= {now} AND node <> $1`
	freeLanesSQL = `UPDATE {relay_lanes} SET owner = NULL, since = NULL WHERE owner NOT IN (SELECT node FROM {relays})`
	giveLanesSQL = `UPDATE {relay_lanes} SET owner = NULL, since = NULL WHERE owner = $1 AND lane IN (SELECT value FROM json_each($2))`

	// share is the even share of the lanes, of which there is one, so that it is 1.
	share = `(SELECT (count(*) + max(1, (SELECT count(*) FROM {relays})) - 1) / max(1, (SELECT count(*) FROM {relays})) FROM {relay_lanes})`

	// takeLanesSQL takes free lanes up to the even share; the epoch rises.
	takeLanesSQL = `
UPDATE {relay_lanes} SET owner = $1, epoch = epoch + 1, since = {now}
 WHERE lane IN (SELECT lane FROM {relay_lanes} WHERE owner IS NULL ORDER BY lane
                 LIMIT max(0, ` + share + ` - (SELECT count(*) FROM {relay_lanes} WHERE owner = $1)))`

	ownLanesSQL = `
SELECT l.lane, l.epoch, s.share, s.total FROM (SELECT ` + share + ` AS share, (SELECT count(*) FROM {relay_lanes}) AS total) s LEFT JOIN {relay_lanes} l ON l.owner = $1 ORDER BY l.lane`

	leaveLanesSQL = `UPDATE {relay_lanes} SET owner = NULL, since = NULL WHERE owner = $1`
	leaveSQL      = `DELETE FROM {relays} WHERE node = $1`
)
