package pgstore

import (
	"context"
	"fmt"
)

const listLettersSQL = `
SELECT number, origin, consumer, destination, reason, error, attempts, life, failed, requeued_at IS NOT NULL,
       first_failed_at, last_failed_at, {message}
  FROM {dead_letters}
 WHERE number > $1 AND ($2 = '' OR origin = $2) AND ($3 = '' OR consumer = $3) AND ($4 = '' OR topic = $4)
   AND ($5 = '' OR type = $5) AND ($6 = '' OR tenant = $6)
 ORDER BY number LIMIT $7`

// Both requeue statements take the letter at most once, by the row that they delete or the
// mark that they set. A relay's letter keeps id, key and position and starts its next life
// in the waiting rows, where it is due now unless an earlier message of its key waits.
const (
	requeueWaitingSQL = `
WITH d AS (
    DELETE FROM {dead_letters} d
     WHERE number = $1 AND origin = 'relay'
       AND NOT EXISTS (SELECT 1 FROM {outbox} o WHERE o.id = d.id)
       AND NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = d.id AND w.destination = d.destination)
    RETURNING *
)
INSERT INTO {outbox_waiting} (lane, position, {message}, destination, life, letter, due_at)
SELECT d.lane, d.position, {d.message}, d.destination, d.life + 1, d.number,
       CASE WHEN d.key <> '' AND EXISTS (
                SELECT 1 FROM {outbox_waiting} w
                 WHERE w.topic = d.topic AND w.key = d.key AND w.key <> '' AND w.destination = d.destination AND w.position < d.position)
            THEN NULL ELSE {clock}() END
  FROM d`

	requeueConsumerSQL = `
UPDATE {dead_letters} SET requeued_at = {clock}(), life = life + 1
 WHERE number = $1 AND origin = 'consumer' AND requeued_at IS NULL AND message_key <> ''`

	// letterStateSQL says why nothing was requeued. It is asked so rarely that the waiting
	// rows need no index for it.
	letterStateSQL = `
SELECT origin || CASE WHEN message_key = '' THEN '' ELSE ' keyed' END FROM {dead_letters} WHERE number = $1
UNION ALL
SELECT 'requeued' FROM {outbox_waiting} WHERE letter = $1 LIMIT 1`
)

// RequeueDeadLetter implements [deadletter.Store].
func (s *Store[Tx]) RequeueDeadLetter(ctx context.Context, number int64) (bool, error) {
	n, err := s.core.DB.Exec(ctx, s.sql.requeueWaiting, number)
	if err != nil {
		return false, s.core.Kind(fmt.Errorf("requeue dead letter %d: %w", number, err))
	}
	if n == 0 {
		return s.core.RequeueConsumerLetter(ctx, number)
	}
	s.WakeRelay()
	return true, nil
}
