package mysqlstore

import (
	"github.com/waybill-go/waybill/internal/sqlstore"
	"github.com/waybill-go/waybill/janitor"
)

// statements are the SQL texts that only this store runs, with its names rendered in.
type statements struct {
	now, known, enqueue, addUnique         string
	claimWaiting, claimReady, lane         string
	aheadRange, claimAhead                 string
	settle                                 sqlstore.SettleStatements
	anyDue, dueScheduled, postpone         string
	releaseOne, refuseDue, removeScheduled string
	countParked, lockArchive               string
	purgeArchive, purgeIDs                 string
}

func newStatements(n names) statements {
	r := n.render
	return statements{
		now: r("{now}"), known: r(knownSQL), enqueue: r(enqueueSQL), addUnique: r(addUniqueSQL),
		claimWaiting: r(claimWaitingSQL), claimReady: r(claimReadySQL), lane: r(laneSQL),
		aheadRange: r(aheadRangeSQL), claimAhead: r(claimAheadSQL),
		settle: settleStatements(r),
		anyDue: r(sqlstore.AnyDueSQL), dueScheduled: r(dueScheduledSQL), postpone: r(postponeSQL),
		releaseOne: r(releaseOneSQL), refuseDue: r(refuseDueSQL), removeScheduled: r(sqlstore.RemoveScheduledSQL),
		countParked: r(countParkedSQL), lockArchive: r(tryLockSQL(string(janitor.Archive))),
		purgeArchive: r(purgeArchiveSQL), purgeIDs: r(purgeIDsSQL),
	}
}

func coreStatements(n names) sqlstore.Statements {
	r := n.render
	return sqlstore.Statements{
		Gate: r(gateSQL), GateDead: r(gateDeadSQL), GateOutcome: r(gateOutcomeSQL), FindRecord: r(findRecordSQL),
		ReadAttempts: r(readAttemptsSQL), SaveAttempt: r(saveAttemptsSQL), ClearAttempts: r(clearAttemptsSQL),
		SaveStarts: r(saveStartsSQL), ClearStarts: r(clearStartsSQL),
		AddLetter: r(addLetterSQL), AnyRequeued: r(sqlstore.AnyRequeuedSQL), TakeRequeued: r(takeRequeuedSQL), LeaseRequeued: r(leaseRequeuedSQL),
		HoldRequeued: r(holdRequeuedSQL), RemoveLetter: r(removeLetterSQL),
		Revive: r(reviveSQL), FailRequeued: r(failRequeuedSQL),
		ListLetters: r(sqlstore.ListLettersSQL), ShowLetter: r(sqlstore.ShowLetterSQL), HasText: hasText,
		LockLetter: r(lockLetterSQL), LetterWaits: r(sqlstore.LetterWaitsSQL), HoldUnit: r(holdUnitSQL), PendsBefore: r(pendsBeforeSQL),
		RequeueRelay: r(requeueRelaySQL), RequeueConsumer: r(sqlstore.RequeueConsumerSQL),
		SettleLetter: r(sqlstore.SettleLetterSQL), ReleaseUnit: r(releaseSQL), RestoreLetter: r(sqlstore.RestoreLetterSQL), ReleaseRecord: r(releaseRecordSQL),
		CopyToWaiting: r(copyToWaitingSQL), CopyLetter: r(copyLetterSQL), Audit: r(sqlstore.AuditSQL), ListAudit: r(sqlstore.ListAuditSQL),
		ListGroups: r(listGroupsSQL), FoldDue: r(foldDueSQL), TryFold: r(tryLockSQL("fold")),
		Nameless: r(namelessSQL), SetFingerprints: r(setFingerprintsSQL),
		LockLanes: r(lockLanesSQL), Join: r(joinSQL), Renew: r(renewSQL), Reap: r(reapSQL), CutLeases: r(cutLeasesSQL), FreeLanes: r(freeLanesSQL),
		GiveLanes: r(giveLanesSQL), TakeLanes: r(takeLanesSQL), OwnLanes: r(ownLanesSQL), LeaveLanes: r(leaveLanesSQL), Leave: r(leaveSQL),
		Replays:       replayStatements(r),
		Schedules:     scheduleStatements(r),
		Sagas:         sagaStatements(r),
		Cancel:        cancelStatements(r),
		MessageStates: r(messageStatesSQL), OutboxStats: r(outboxStatsSQL), OutboxBacklog: r(outboxBacklogSQL),
		OutboxMessages: r(outboxMessagesSQL), PublishedMessages: r(sqlstore.PublishedMessagesSQL),
		RelayStates: r(sqlstore.RelayStatesSQL), InboxStates: r(sqlstore.InboxStatesSQL), InboxSize: r(sqlstore.InboxSizeSQL),
		Leases:    leaseStatements(r),
		Offsets:   sqlstore.OffsetStatementsOf(r, unlessThere),
		Responses: sqlstore.ResponseStatementsOf(r, "CAST($3 * 1000 AS SIGNED)", replaceResponse),
		Cleanup:   cleanupStatements(n),
	}
}

// replaceResponse is [sqlstore.ReplaceResponse]. The column that decides is assigned last.
const replaceResponse = `
ON DUPLICATE KEY UPDATE response = CASE WHEN expires_at <= {now} THEN VALUES(response) ELSE response END,
       expires_at = CASE WHEN expires_at <= {now} THEN VALUES(expires_at) ELSE expires_at END`

// listed is a table n of the numbers $1.
const listed = `JSON_TABLE('[$1]', '$[*]' COLUMNS (number BIGINT PATH '$')) n`

// tryLockSQL returns a row to one transaction at a time, which then does the job.
func tryLockSQL(job string) string {
	return `SELECT 1 FROM {locks} WHERE name = '` + job + `' FOR UPDATE SKIP LOCKED`
}

// messageFields are those of [sqlstore.MessageFields].
var messageFields = quoteKey(sqlstore.MessageFields)
