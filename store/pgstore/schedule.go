package pgstore

import "github.com/waybill-go/waybill/internal/sqlstore"

// addScheduledSQL leaves the caller's transaction usable where the token is taken.
const addScheduledSQL = `
INSERT INTO {scheduled} (lane, ` + sqlstore.ScheduledColumns + `)
VALUES ({lane}($4::text, $1::text), $1::text, $19, {now}, $1::text, $2, $3, $4::text, $5, $6, $7, $8, $9, $10, $11, $12::text::jsonb,
        $13, $14, $15, $16, $17, $18, $19, $20)
ON CONFLICT (token) DO NOTHING`

// atOnce is part of a statement of a relay that may meet a lock of the application's. Nobody
// knows how long that lasts: what is not to be had at once is left for later. It is true, and holds
// until the transaction ends.
const atOnce = `set_config('lock_timeout', '100ms', true) <> ''`

const holdScheduleSQL = `SELECT name FROM {schedules} WHERE name = $1 AND version = $2 AND (SELECT ` + atOnce + `) FOR UPDATE SKIP LOCKED`

func scheduleStatements(r func(sql string) string) sqlstore.ScheduleStatements {
	st := sqlstore.CommonScheduleStatements(r)
	st.AddScheduled, st.MoveScheduled = r(addScheduledSQL), r(sqlstore.MoveScheduledSQL)
	st.Hold = r(holdScheduleSQL)
	st.Add = r(sqlstore.InsertScheduleSQL + `ON CONFLICT (name) DO NOTHING`)
	return st
}
