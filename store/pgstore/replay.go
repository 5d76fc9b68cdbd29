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

func replayStatements(r func(sql string) string) sqlstore.ReplayStatements {
	s := sqlstore.CommonReplayStatements(r)
	s.Preview, s.Start = r(previewReplaySQL), r(startReplaySQL)
	s.Lock = s.Read + " FOR UPDATE OF r SKIP LOCKED"
	return s
}

// AdvanceReplay implements [deadletter.ReplayStore].
func (s *Store[Tx]) AdvanceReplay(ctx context.Context, number int64, n int) (deadletter.Replay, error) {
	s.clean.empty()
	return s.core.AdvanceReplay(ctx, number, n)
}
