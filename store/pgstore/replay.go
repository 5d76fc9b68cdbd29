package pgstore

import (
	"context"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// previewReplaySQL reads the letters once, under no lock.
const previewReplaySQL = `
WITH d AS MATERIALIZED (
    SELECT topic, key, first_failed_at, last_failed_at FROM {dead_letters} {where}
)
SELECT count(*), (SELECT count(*) FROM (SELECT DISTINCT topic, key FROM d WHERE key <> '') k),
       count(*) FILTER (WHERE $1::float8 > 0 AND last_failed_at < (SELECT {clock}()) - $1::float8 * interval '1 millisecond'),
       min(first_failed_at)
  FROM d`

// startReplaySQL counts and draws the line in one snapshot.
const startReplaySQL = `
INSERT INTO {replays} (plan, started_by, why, letters, upto)
SELECT $1::text, $2::text, $3::text, count(*), coalesce(max(number), 0) FROM {dead_letters} {where}
RETURNING number`

// replaySQL counts what is dead again by the partial index on replay.
const replaySQL = `
SELECT r.number, r.plan, r.started_by, r.why, r.state, r.letters, r.requeued, r.skipped,
       (SELECT count(*) FROM {dead_letters} d WHERE d.replay = r.number AND d.replay <> 0 AND d.requeued_at IS NULL),
       r.problem, r.started_at, r.ended_at, r.passed, r.upto
  FROM {replays} r`

const (
	readReplaySQL = replaySQL + ` WHERE r.number = $1`

	// lockReplaySQL keeps others from advancing the replay until the transaction ends.
	lockReplaySQL = readReplaySQL + ` FOR UPDATE OF r SKIP LOCKED`

	listReplaysSQL = replaySQL + ` ORDER BY r.state = 'running' DESC, r.number DESC LIMIT $1`
)

// nextLettersSQL goes along an index with the number. As the cursor moves, no part of it is
// read twice.
const nextLettersSQL = `SELECT number FROM {dead_letters} {where}`

const (
	saveReplaySQL = `
UPDATE {replays} SET passed = $2, requeued = $3, skipped = $4, state = $5, problem = $6,
       ended_at = CASE WHEN $5 <> 'running' THEN {clock}() END
 WHERE number = $1`

	// cancelReplaySQL waits for the one who advances the replay, and then sees how it ended.
	cancelReplaySQL = `UPDATE {replays} SET state = 'cancelled', ended_at = {clock}() WHERE number = $1 AND state = 'running'`
)

func replayStatements(r func(sql string) string) sqlstore.ReplayStatements {
	return sqlstore.ReplayStatements{
		Preview: r(previewReplaySQL), Start: r(startReplaySQL), Read: r(readReplaySQL), Lock: r(lockReplaySQL),
		List: r(listReplaysSQL), NextLetters: r(nextLettersSQL), Save: r(saveReplaySQL), Cancel: r(cancelReplaySQL),
	}
}

// AdvanceReplay implements [deadletter.ReplayStore].
func (s *Store[Tx]) AdvanceReplay(ctx context.Context, number int64, n int) (deadletter.Replay, error) {
	s.clean.empty()
	return s.core.AdvanceReplay(ctx, number, n)
}
