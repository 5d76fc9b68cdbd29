package mysqlstore

import "github.com/waybill-go/waybill/internal/sqlstore"

// previewReplaySQL reads the letters under no lock.
const previewReplaySQL = `
WITH d AS (
    SELECT topic, {key}, first_failed_at, last_failed_at FROM {dead_letters} {where}
)
SELECT count(*), (SELECT count(*) FROM (SELECT DISTINCT topic, {key} FROM d WHERE {key} <> '') k),
       coalesce(sum($1 > 0 AND last_failed_at < {now} - CAST($1 * 1000 AS SIGNED)), 0),
       min(first_failed_at)
  FROM d`

// startReplaySQL counts and draws the line in one snapshot.
const (
	startReplaySQL = `
INSERT INTO {replays} (plan, started_by, why, letters, upto, started_at)
SELECT $1, $2, $3, count(*), coalesce(max(number), 0), {now} FROM {dead_letters} {where}`

	startedReplaySQL = `SELECT LAST_INSERT_ID()`
)

func replayStatements(r func(sql string) string) sqlstore.ReplayStatements {
	s := sqlstore.CommonReplayStatements(r)
	s.Preview, s.Start = r(previewReplaySQL), r(startReplaySQL)
	s.Started, s.Lock = r(startedReplaySQL), s.Read+" FOR UPDATE SKIP LOCKED"
	return s
}
