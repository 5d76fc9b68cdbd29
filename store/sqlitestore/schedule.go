package sqlitestore

import (
	"context"

	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

const (
	dueScheduledSQL = `SELECT position FROM {scheduled} WHERE due_at <= {now} ORDER BY due_at, position LIMIT $1`

	// releaseOneSQL moves a message into the outbox, id kept, unless its identity is on its way.
	releaseOneSQL = `
INSERT INTO {outbox} ({message})
SELECT {s.message} FROM {scheduled} s
 WHERE s.position = $1 AND NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = s.id AND w.source = s.source AND w.tenant = s.tenant)
ON CONFLICT (id, source, tenant) DO NOTHING`
)

// ReleaseScheduled implements [contract.Source].
func (s *Store) ReleaseScheduled(ctx context.Context, limit int) (int, error) {
	due := sqlstore.Due[int64]{Any: s.sql.anyDue, List: s.sql.dueScheduled, Scan: sqldb.Scan[int64], Release: s.release,
		Position: func(position int64) int64 { return position }, Refuse: s.sql.refuseDue, Remove: s.sql.removeScheduled}
	return sqlstore.ReleaseDue(ctx, s.core, due, limit)
}

// release reports whether the outbox has taken the message.
func (s *Store) release(ctx context.Context, conn sqldb.Conn, position int64) (taken bool, err error) {
	n, err := conn.Exec(ctx, s.sql.releaseOne, position)
	return n > 0, err
}

// addScheduledSQL gives the position itself: here a default cannot be random.
const addScheduledSQL = `
INSERT INTO {scheduled} (position, ` + sqlstore.ScheduledColumns + `)
VALUES (-1 - abs(random() % 9007199254740992), ` + sqlstore.ScheduledValues + `) ON CONFLICT (token) DO NOTHING`

func scheduleStatements(r func(sql string) string) sqlstore.ScheduleStatements {
	st := sqlstore.CommonScheduleStatements(r)
	st.AddScheduled, st.MoveScheduled = r(addScheduledSQL), r(sqlstore.MoveScheduledSQL)
	st.Add = r(sqlstore.InsertScheduleSQL + `ON CONFLICT (name) DO NOTHING`)
	return st
}
