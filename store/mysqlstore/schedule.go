package mysqlstore

import (
	"context"
	"strings"

	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
	"github.com/waybill-go/waybill/outbox"
)

const (
	// dueScheduledSQL lets several relays share the work by skipping each other's rows.
	dueScheduledSQL = `
SELECT position, id, source, tenant, {message} FROM {scheduled}
 WHERE due_at <= {now} ORDER BY due_at, position LIMIT $1
   FOR UPDATE SKIP LOCKED`

	// releaseOneSQL moves a message into the outbox, id kept. It takes the values themselves: an
	// INSERT that selects them would take the lock of the table's next position, for which
	// those who enqueue would wait.
	releaseOneSQL = `INSERT INTO {outbox} ({message}) VALUES ({values})`

	// postponeSQL puts the message that would be moved first off.
	postponeSQL = `UPDATE {scheduled} SET due_at = {now} + 5000000 WHERE due_at <= {now} ORDER BY due_at, position LIMIT 1`

	// refuseDueSQL is [sqlstore.RefuseDueSQL] with the lane, which the letter needs to be put back
	// and which the outbox would have computed in the same way.
	refuseDueSQL = `
INSERT INTO {dead_letters} (origin, position, lane, {message}, reason, error, attempts, first_failed_at, last_failed_at)
SELECT 'relay', s.position, ASCII(UNHEX(SHA2(CASE WHEN s.{key} = '' THEN s.id ELSE s.{key} END, 256))) & 63, {s.message},
       $2, $3, 0, {now}, {now}
  FROM {scheduled} s WHERE s.position = $1`
)

// ReleaseScheduled implements [contract.Source].
func (s *Store) ReleaseScheduled(ctx context.Context, limit int) (int, error) {
	due := sqlstore.Due[scheduled]{Any: s.sql.anyDue, List: s.sql.dueScheduled, Scan: scanScheduled, Release: s.release,
		Position: func(m scheduled) int64 { return m.position }, Refuse: s.sql.refuseDue, Remove: s.sql.removeScheduled}
	release := func(limit int) (int, error) { return sqlstore.ReleaseDue(ctx, s.relays, due, limit) }
	return sqlstore.ReleaseAround(limit, release, func() error {
		_, err := briefly{s.core.DB}.Exec(ctx, s.sql.postpone)
		return s.core.Kind(err)
	})
}

// scheduled is a row of a message that is due.
type scheduled struct {
	position int64
	identity outbox.Identity
	message  []any // its columns as they are
}

func scanScheduled(r sqldb.Rows) (m scheduled, err error) {
	m.message = make([]any, strings.Count(sqldb.MessageColumns, ",")+1)
	dest := []any{&m.position, &m.identity.ID, &m.identity.Source, &m.identity.Tenant}
	for i := range m.message {
		dest = append(dest, &m.message[i])
	}
	err = r.Scan(dest...)
	return m, err
}

// release reports whether the outbox has taken the message.
func (s *Store) release(ctx context.Context, conn sqldb.Conn, m scheduled) (taken bool, err error) {
	conn = briefly{conn}
	known, err := s.known(ctx, conn, []string{m.identity.ID}, false)
	if err != nil || known.pending[m.identity] {
		return false, err
	}
	_, err = conn.Exec(ctx, strings.Replace(s.sql.releaseOne, "{values}", placeholders(len(m.message)), 1), m.message...)
	if isDuplicate(err) { // somebody has enqueued it meanwhile
		return false, nil
	}
	return err == nil, err
}

// moveScheduledSQL changes the row in any case, because rows that stay as they are do not count.
const moveScheduledSQL = `UPDATE {scheduled} SET due_at = $2, deliver_at = $2, repeats = repeats + 1 WHERE token = $1`

func scheduleStatements(r func(sql string) string) sqlstore.ScheduleStatements {
	st := sqlstore.CommonScheduleStatements(r)
	st.AddScheduled = r(`INSERT INTO {scheduled} (` + sqlstore.ScheduledColumns + `) VALUES (` + sqlstore.ScheduledValues + `) ` + orNone)
	st.MoveScheduled = r(moveScheduledSQL)
	st.Hold = r(`SELECT name FROM {schedules} WHERE name = $1 AND version = $2 FOR UPDATE SKIP LOCKED`)
	st.Add = r(sqlstore.InsertScheduleSQL + orNone)
	return st
}
