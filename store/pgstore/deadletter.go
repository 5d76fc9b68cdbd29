package pgstore

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// listLettersSQL counts what waits behind a letter on the index on the units.
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

// Both requeue statements take the letter at most once, by the row that they delete or the
// mark that they set. A relay's letter keeps id, key and position and starts its next life
// in the waiting rows, where it is due now unless it is behind something in its unit.
var (
	// holdUnitSQL comes first, for a letter of a relay: what the letter is to wait behind can
	// then not go without the one who lets it go seeing the letter back. The letter before
	// the waiting row, as settlements lock them.
	holdUnitSQL = `
WITH d AS MATERIALIZED (
    SELECT * FROM {dead_letters} WHERE number = $1 AND origin = 'relay' FOR UPDATE
)
SELECT w.position
  FROM d CROSS JOIN LATERAL (
    SELECT e.position FROM {outbox_waiting} e
     WHERE e.topic = d.topic AND e.key = d.key AND e.key <> '' AND NOT e.alone AND e.destination = d.destination AND e.position < d.position
     ORDER BY e.position LIMIT 1
       FOR SHARE) w`

	requeueWaitingSQL = `
WITH d AS (
    DELETE FROM {dead_letters} d
     WHERE number = $1 AND origin = 'relay' AND resolved_at IS NULL
       AND NOT EXISTS (SELECT 1 FROM {outbox} o WHERE o.id = d.id)
       AND NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = d.id AND w.destination = d.destination)
    RETURNING *
)
INSERT INTO {outbox_waiting} (lane, position, {message}, destination, life, letter, due_at)
SELECT d.lane, d.position, {d.message}, d.destination, d.life + 1, d.number,
       CASE WHEN ` + behindSQL("d", "d.destination") + ` THEN NULL ELSE {clock}() END
  FROM d`

	requeueConsumerSQL = `
UPDATE {dead_letters} SET requeued_at = {clock}(), life = life + 1
 WHERE number = $1 AND origin = 'consumer' AND requeued_at IS NULL AND resolved_at IS NULL AND message_key <> ''`
)

// resolveLetterSQL waits for a settlement that is putting messages behind the letter.
const resolveLetterSQL = `
UPDATE {dead_letters} SET resolved_at = {clock}(), resolution = $2, parks = false
 WHERE number = $1 AND requeued_at IS NULL AND resolved_at IS NULL`

// letterStateSQL says why nothing was requeued or resolved. It is asked so rarely that the
// waiting rows need no index for it.
const letterStateSQL = `
SELECT CASE WHEN resolved_at IS NOT NULL THEN 'resolved' WHEN requeued_at IS NOT NULL THEN 'requeued'
            WHEN origin = 'consumer' AND message_key = '' THEN 'without key' ELSE 'dead' END
  FROM {dead_letters} WHERE number = $1
UNION ALL
SELECT 'requeued' FROM {outbox_waiting} WHERE letter = $1 LIMIT 1`

// RequeueDeadLetter implements [deadletter.Store].
func (s *Store[Tx]) RequeueDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	s.clean.empty()
	var n int64
	err := s.core.InTx(ctx, func(_ Tx, conn sqldb.Conn) (err error) {
		if _, err = conn.Exec(ctx, s.sql.holdUnit, number); err == nil {
			n, err = conn.Exec(ctx, s.sql.requeueWaiting, number)
		}
		if err != nil {
			return fmt.Errorf("requeue dead letter %d: %w", number, err)
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	if n == 0 {
		return s.core.RequeueConsumerLetter(ctx, number)
	}
	s.WakeRelay()
	return true, nil
}
