package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"github.com/waybill-go/waybill/deadletter"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/sqldb"
)

const listLettersSQL = `
SELECT number, origin, consumer, destination, reason, error, attempts, life, failed, requeued_at IS NOT NULL,
       first_failed_at, last_failed_at, resolved_at, resolution, parks,
       CASE WHEN d.parks THEN (SELECT count(*) FROM {outbox_waiting} w
            WHERE w.topic = d.topic AND w.key = d.key AND w.key <> '' AND NOT w.alone AND w.destination = d.destination AND w.position > d.position)
       ELSE 0 END, {message}
  FROM {dead_letters} d
 WHERE number > $1 AND ($2 = '' OR origin = $2) AND ($3 = '' OR consumer = $3) AND ($4 = '' OR topic = $4)
   AND ($5 = '' OR type = $5) AND ($6 = '' OR tenant = $6) AND (resolved_at IS NOT NULL) = $8
 ORDER BY number LIMIT $7`

// A relay's letter keeps id, key and position and starts its next life in the waiting rows,
// where it is due now unless it is behind something in its unit.
var requeueWaitingSQL = `
INSERT INTO {outbox_waiting} (position, {message}, destination, life, letter, due_at)
SELECT d.position, {d.message}, d.destination, d.life + 1, d.number,
       CASE WHEN ` + behindSQL("d", "d.destination") + ` THEN NULL ELSE {now} END
  FROM {dead_letters} d
 WHERE d.number = $1 AND d.origin = 'relay' AND d.resolved_at IS NULL
   AND NOT EXISTS (SELECT 1 FROM {outbox} o WHERE o.id = d.id)
   AND NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = d.id AND w.destination = d.destination)`

const (
	removeRequeuedSQL = `DELETE FROM {dead_letters} WHERE number = $1`

	requeueConsumerSQL = `
UPDATE {dead_letters} SET requeued_at = {now}, life = life + 1
 WHERE number = $1 AND origin = 'consumer' AND requeued_at IS NULL AND resolved_at IS NULL AND message_key <> ''`

	resolveLetterSQL = `
UPDATE {dead_letters} SET resolved_at = {now}, resolution = $2, parks = 0
 WHERE number = $1 AND requeued_at IS NULL AND resolved_at IS NULL`

	// letterStateSQL says why nothing was requeued or resolved.
	letterStateSQL = `
SELECT CASE WHEN resolved_at IS NOT NULL THEN 'resolved' WHEN requeued_at IS NOT NULL THEN 'requeued'
            WHEN origin = 'consumer' AND message_key = '' THEN 'without key' ELSE 'dead' END
  FROM {dead_letters} WHERE number = $1
UNION ALL
SELECT 'requeued' FROM {outbox_waiting} WHERE letter = $1 LIMIT 1`
)

// RequeueDeadLetter implements [deadletter.Store].
func (s *Store) RequeueDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	var requeued int64
	err := s.core.InTx(ctx, func(_ *sql.Tx, conn sqldb.Conn) (err error) {
		if requeued, err = conn.Exec(ctx, s.sql.requeueWaiting, number); err == nil && requeued > 0 {
			_, err = conn.Exec(ctx, s.sql.removeRequeued, number)
		}
		if err != nil {
			return fmt.Errorf("requeue dead letter %d: %w", number, err)
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	done := requeued > 0
	if !done {
		if done, err = s.core.RequeueConsumerLetter(ctx, number); err != nil {
			return false, err
		}
	}
	if done {
		s.WakeRelay()
	}
	return done, nil
}

// RunRequeued implements [inbox.Inbox]. It looks first: a poll that finds nothing need not
// wait for the write lock.
func (s *Store) RunRequeued(ctx context.Context, consumer string, fn func(ctx context.Context, tx *sql.Tx, m *waybill.Message) error) (bool, error) {
	rows, err := s.core.DB.Query(ctx, s.sql.anyRequeued, consumer)
	found, _, err := sqldb.One(rows, err, sqldb.Scan[bool])
	if err != nil || !found {
		return false, s.core.Kind(err)
	}
	return s.core.RunRequeued(ctx, consumer, fn)
}
