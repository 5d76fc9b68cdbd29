package pgstore

import (
	"strings"

	"github.com/waybill-go/waybill/internal/sqldb"
)

// statements are the SQL texts of a store, with its names rendered in.
type statements struct {
	enqueue, enqueueUnique                                       string
	claimWaiting, claimReady, openWriters                        string
	settleDelete, settleArchive                                  string
	fence, park, follow, archiveWaiting, deleteWaiting           string
	retry, bury, schedule, promote, releaseScheduled             string
	join, renew, reap, freeLanes, giveLanes, takeLanes, lanes    string
	leaveLanes, leave                                            string
	gate, gateOutcome, clearAttempts, readAttempts, saveAttempts string
	gateDead, addLetter, takeRequeued, removeLetter, revive      string
	failRequeued                                                 string
	listLetters, requeueWaiting, requeueConsumer, letterState    string
	messageStates, outboxStats                                   string
}

// newStatements renders all texts. Beside table names they may hold {message}, the columns
// of a message, and {m.message} and so on, the same with a table's alias.
func newStatements(n names) statements {
	columns := strings.Split(sqldb.MessageColumns, ", ")
	withAlias := func(alias string) string { return alias + "." + strings.Join(columns, ", "+alias+".") }
	message := strings.NewReplacer(
		"{message}", sqldb.MessageColumns,
		"{o.message}", withAlias("o"), "{w.message}", withAlias("w"), "{m.message}", withAlias("m"),
		"{d.message}", withAlias("d"), "{s.message}", withAlias("s"),
	)
	r := func(sql string) string { return n.render(message.Replace(strings.TrimSpace(sql))) }
	return statements{
		enqueue: r(enqueueSQL), enqueueUnique: r(enqueueUniqueSQL),
		claimWaiting: r(claimWaitingSQL), claimReady: r(claimReadySQL), openWriters: r(openWritersSQL),
		settleDelete: r(settleDeleteSQL), settleArchive: r(settleArchiveSQL),
		fence: r(fenceSQL), park: r(parkSQL), follow: r(followSQL),
		archiveWaiting: r(archiveWaitingSQL), deleteWaiting: r(deleteWaitingSQL),
		retry: r(retrySQL), bury: r(burySQL), schedule: r(scheduleSQL), promote: r(promoteSQL),
		releaseScheduled: r(releaseScheduledSQL),
		join:             r(joinSQL), renew: r(renewSQL), reap: r(reapSQL), freeLanes: r(freeLanesSQL),
		giveLanes: r(giveLanesSQL), takeLanes: r(takeLanesSQL), lanes: r(lanesSQL),
		leaveLanes: r(leaveLanesSQL), leave: r(leaveSQL),
		gate: r(gateSQL), gateOutcome: r(gateOutcomeSQL), clearAttempts: r(clearAttemptsSQL),
		readAttempts: r(readAttemptsSQL), saveAttempts: r(saveAttemptsSQL),
		gateDead: r(gateDeadSQL), addLetter: r(addLetterSQL), takeRequeued: r(takeRequeuedSQL),
		removeLetter: r(removeLetterSQL), revive: r(reviveSQL), failRequeued: r(failRequeuedSQL),
		listLetters: r(listLettersSQL), requeueWaiting: r(requeueWaitingSQL),
		requeueConsumer: r(requeueConsumerSQL), letterState: r(letterStateSQL),
		messageStates: r(messageStatesSQL), outboxStats: r(outboxStatsSQL),
	}
}
