package pgstore

import (
	"fmt"
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// statements are the SQL texts that only this store runs, with its names rendered in.
type statements struct {
	claimDue, claimPage, claimBlocked                  string
	aheadRange, claimAhead, staysAhead                 string
	settleDelete, settleArchive                        string
	fence, park, follow, archiveWaiting, deleteWaiting string
	retry, bury, schedule, promote, releaseScheduled   string
	holdLetters, countParked                           string
	extendLease, tryJanitor, postpone                  string
	announce, openEnqueuers, anyScheduled              string
	withdraw, withdrawLast                             string
	dueScheduled, releaseOne, refuseScheduled          string
}

func newStatements(n names) statements {
	r := renderer(n)
	return statements{
		claimDue: r(claimDueSQL), claimPage: r(claimPageSQL), claimBlocked: r(claimBlockedSQL),
		aheadRange: r(aheadRangeSQL), claimAhead: r(claimAheadSQL), staysAhead: r(staysAheadSQL),
		settleDelete: r(settleDeleteSQL), settleArchive: r(settleArchiveSQL),
		fence: r(fenceSQL), park: r(parkSQL), follow: r(followSQL),
		archiveWaiting: r(archiveWaitingSQL), deleteWaiting: r(deleteWaitingSQL),
		retry: r(retrySQL), bury: r(burySQL), schedule: r(scheduleSQL), promote: r(promoteSQL),
		releaseScheduled: r(releaseScheduledSQL), dueScheduled: r(dueScheduledSQL), releaseOne: r(releaseOneSQL),
		refuseScheduled: r(refuseScheduledSQL), postpone: r(postponeSQL),
		announce: r(announceSQL), withdraw: r(withdrawSQL), withdrawLast: r(withdrawLastSQL), openEnqueuers: r(openEnqueuersSQL),
		anyScheduled: r(anyScheduledSQL), extendLease: r(extendLeaseSQL),
		holdLetters: r(holdLettersSQL), countParked: r(countParkedSQL),
		tryJanitor: tryLockSQL(n, "archive"),
	}
}

func coreStatements(n names, gate gateTexts) sqlstore.Statements {
	r := renderer(n)
	return sqlstore.Statements{
		Gate: r(gate.one), GateDead: r(gate.dead), GateOutcome: r(gate.outcome), FindRecord: r(gate.find),
		ReadAttempts: r(readAttemptsSQL), SaveAttempt: r(saveAttemptsSQL), ClearAttempts: r(clearAttemptsSQL),
		SaveStarts: r(saveStartsSQL), ClearStarts: r(clearStartsSQL),
		AddLetter: r(addLetterSQL), TakeRequeued: r(takeRequeuedSQL), HoldRequeued: r(holdRequeuedSQL), RemoveLetter: r(removeLetterSQL),
		Revive: r(reviveSQL), FailRequeued: r(failRequeuedSQL),
		ListLetters: r(sqlstore.ListLettersSQL), ShowLetter: r(sqlstore.ShowLetterSQL), PlanAfresh: planAfreshSQL,
		LockLetter: r(lockLetterSQL), LetterWaits: r(letterWaitsSQL), HoldUnit: r(holdUnitSQL), PendsBefore: r(pendsBeforeSQL),
		RequeueRelay: r(requeueRelaySQL), RequeueConsumer: r(sqlstore.RequeueConsumerSQL),
		SettleLetter: r(settleLetterSQL), ReleaseUnit: r(releaseSQL), RestoreLetter: r(sqlstore.RestoreLetterSQL), ReleaseRecord: r(releaseRecordSQL),
		CopyToWaiting: r(copyToWaitingSQL), CopyLetter: r(copyLetterSQL), Audit: r(auditSQL), ListAudit: r(sqlstore.ListAuditSQL),
		ListGroups: r(listGroupsSQL), FoldDue: r(foldDueSQL), TryFold: tryLockSQL(n, "fold"), Fold: r(foldSQL), PruneSums: r(pruneSumsSQL),
		Nameless: r(namelessSQL), SetFingerprints: r(setFingerprintsSQL),
		LockLanes: lockLanesSQL(n), Join: r(joinSQL), Renew: r(renewSQL), Reap: r(reapSQL), CutLeases: r(cutLeasesSQL), FreeLanes: r(freeLanesSQL),
		GiveLanes: r(giveLanesSQL), TakeLanes: r(takeLanesSQL), OwnLanes: r(lanesSQL), LeaveLanes: r(leaveLanesSQL), Leave: r(leaveSQL),
		Replays:       replayStatements(r),
		Schedules:     scheduleStatements(r),
		Sagas:         sagaStatements(r),
		Cancel:        cancelStatements(r),
		MessageStates: r(messageStatesSQL), OutboxStats: r(outboxStatsSQL), OutboxBacklog: r(outboxBacklogSQL),
		OutboxMessages: r(outboxMessagesSQL), PublishedMessages: r(publishedMessagesSQL),
		RelayStates: r(relayStatesSQL), InboxStates: r(inboxStatesSQL), InboxSize: r(inboxSizeSQL),
		Leases:    leaseStatements(r),
		Offsets:   sqlstore.OffsetStatementsOf(r, "ON CONFLICT DO NOTHING"),
		Responses: sqlstore.ResponseStatementsOf(r, "$3 * interval '1 millisecond'", sqlstore.ReplaceResponse),
		Cleanup:   cleanupStatements(n),
	}
}

// renderer puts names into texts. Beside table names they may hold {now}, the clock, {key}, the
// column, {text:id} and so on, columns for LIKE, {message}, the columns of a message, {m.message} and
// so on, the same with a table's alias, {m.movable}, the same in a form that the indexes of every
// table can hold, and {no.message}, a NULL for each.
func renderer(n names) func(sql string) string {
	pairs := []string{
		"{text:id}", "id", "{text:key}", "key", "{text:correlation_id}", "correlation_id",
		"{now}", "{clock}()", "{key}", "key", "{message}", sqldb.MessageColumns,
		"{no.message}", "NULL" + strings.Repeat(", NULL", strings.Count(sqldb.MessageColumns, ",")),
	}
	for _, alias := range [...]string{"o", "w", "m", "s", "d"} {
		pairs = append(pairs, "{"+alias+".message}", sqldb.MessageColumnsOf(alias), "{"+alias+".movable}", movableColumnsOf(alias))
	}
	message := strings.NewReplacer(pairs...)
	return func(sql string) string { return n.render(message.Replace(strings.TrimSpace(sql))) }
}

// messageParams are parameters for [sqlstore.MessageFields], from the one with the given
// number on.
func messageParams(first int) string {
	var params []string
	for i, name := range strings.Split(sqlstore.MessageFields, ", ") {
		kind := "text"
		switch name {
		case "direct":
			kind = "boolean"
		case "payload_bytes":
			kind = "bytea"
		case "headers":
			kind = "text::jsonb"
		case "time", "expires_at":
			kind = "timestamptz"
		}
		params = append(params, fmt.Sprintf("$%d::%s", first+i, kind))
	}
	return strings.Join(params, ", ")
}

// movableColumnsOf are the columns of a message in a row that anybody may have written, as the dead
// letters can keep them. What they index is cut where it is longer than a message may have it, one
// character behind the limit, so that the message stays malformed; times that are infinite, which
// no program can read, are left out.
func movableColumnsOf(alias string) string {
	columns := strings.Split(sqldb.MessageColumnsOf(alias), ", ")
	for i, column := range columns {
		switch name := strings.TrimPrefix(column, alias+"."); name {
		case "id", "key", "type", "topic", "tenant":
			columns[i] = fmt.Sprintf("left(%s, %d)", column, waybill.MaxIDLen+1)
		case "time", "deliver_at", "expires_at":
			columns[i] = fmt.Sprintf("CASE WHEN isfinite(%s) THEN %[1]s END", column)
		case "enqueued_at":
			columns[i] = fmt.Sprintf("CASE WHEN isfinite(%s) THEN %[1]s ELSE {clock}() END", column)
		}
	}
	return strings.Join(columns, ", ")
}
