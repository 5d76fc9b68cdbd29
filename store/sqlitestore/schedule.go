package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/waybill-go/waybill/internal/sqldb"
)

const (
	// anyDueSQL is asked first: a poll that finds nothing need not wait for the write lock.
	anyDueSQL = `SELECT EXISTS (SELECT 1 FROM {scheduled} WHERE due_at <= {now})`

	dueScheduledSQL = `SELECT position FROM {scheduled} WHERE due_at <= {now} ORDER BY due_at, position LIMIT $1`

	// releaseOneSQL moves a message into the outbox, id kept, unless its id is on its way.
	releaseOneSQL = `
INSERT INTO {outbox} ({message})
SELECT {s.message} FROM {scheduled} s
 WHERE s.position = $1 AND NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = s.id)
ON CONFLICT (id) DO NOTHING`

	// refuseOneSQL makes it a dead letter in that case: it must neither clog nor vanish.
	refuseOneSQL = `
INSERT INTO {dead_letters} (origin, position, {message}, reason, error, attempts, first_failed_at, last_failed_at)
SELECT 'relay', s.position, {s.message}, 'duplicate_id', 'a message with this id was on its way when this one was due', 0, {now}, {now}
  FROM {scheduled} s WHERE s.position = $1`

	removeScheduledSQL = `DELETE FROM {scheduled} WHERE position = $1`
)

// ReleaseScheduled implements [relay.Source].
func (s *Store) ReleaseScheduled(ctx context.Context, limit int) (int, error) {
	rows, err := s.core.DB.Query(ctx, s.sql.anyDue)
	due, _, err := sqldb.One(rows, err, sqldb.Scan[bool])
	if err != nil || !due {
		return 0, s.core.Kind(err)
	}
	released, refused := 0, 0
	err = s.core.InTx(ctx, func(_ *sql.Tx, conn sqldb.Conn) error {
		rows, err := conn.Query(ctx, s.sql.dueScheduled, limit)
		positions, err := sqldb.Collect(rows, err, sqldb.Scan[int64])
		if err != nil {
			return err
		}
		for _, p := range positions {
			taken, err := s.release(ctx, conn, p)
			if err != nil {
				return fmt.Errorf("release scheduled message: %w", err)
			}
			if !taken {
				refused++
			}
		}
		released = len(positions)
		if refused > 0 {
			return s.core.NameLetters(ctx, conn)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return released, nil
}

// release reports whether the outbox has taken the message; else it is a dead letter.
func (s *Store) release(ctx context.Context, conn sqldb.Conn, position int64) (taken bool, err error) {
	n, err := conn.Exec(ctx, s.sql.releaseOne, position)
	if err == nil && n == 0 {
		_, err = conn.Exec(ctx, s.sql.refuseOne, position)
	}
	if err == nil {
		_, err = conn.Exec(ctx, s.sql.removeScheduled, position)
	}
	return n > 0, err
}
