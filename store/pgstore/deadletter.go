package pgstore

import (
	"context"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// planAfreshSQL keeps one plan from serving all arguments, until the transaction ends.
const planAfreshSQL = `SET LOCAL plan_cache_mode = force_custom_plan`

// A change to a letter locks it first, so that it is made once. It waits for a settlement
// that is putting messages behind the letter, and for a consumer that runs it.
const (
	lockLetterSQL = `
SELECT origin, state, requeued_at IS NOT NULL, origin = 'consumer' AND message_key = '', topic, id
  FROM {dead_letters} WHERE number = $1 FOR UPDATE`

	// letterWaitsSQL is asked so rarely that the waiting rows need no index for it.
	letterWaitsSQL = `SELECT EXISTS (SELECT FROM {outbox_waiting} WHERE letter = $1)`

	// holdUnitSQL comes when the letter is locked, as settlements lock letters before the
	// waiting rows.
	holdUnitSQL = `
SELECT w.position
  FROM {dead_letters} d CROSS JOIN LATERAL (
    SELECT e.position FROM {outbox_waiting} e
     WHERE e.topic = $2 AND e.key = d.key AND e.key <> '' AND NOT e.alone AND e.destination = d.destination AND e.position < d.position
     ORDER BY e.position LIMIT 1
       FOR SHARE) w
 WHERE d.number = $1`

	// pendsBeforeSQL tells of what is in the outbox before a letter: it goes to the waiting rows only when a relay
	// lets it wait, so nothing can be put behind it. Served by the primary key.
	pendsBeforeSQL = `
SELECT 1
  FROM {dead_letters} d
  JOIN {outbox} o ON o.lane = d.lane AND o.position < d.position AND o.topic = $2 AND o.key = d.key
 WHERE d.number = $1 AND d.key <> ''
 LIMIT 1`
)

// A relay's letter keeps id, key and position and starts its next life in the waiting rows,
// where it is due now unless it is behind something in its unit. So does the corrected copy
// of a message, in the unit that it now belongs to. A message and its copy have one place: one of them
// waits there at a time.
var (
	requeueRelaySQL = `
INSERT INTO {outbox_waiting} (lane, position, {message}, destination, life, letter, replay, history, due_at)
SELECT d.lane, d.position, {d.message}, d.destination, d.life + 1, d.number, $2, d.history,
       CASE WHEN ` + behindSQL("d", "d.destination") + ` THEN NULL ELSE {clock}() END
  FROM {dead_letters} d
 WHERE d.number = $1
   AND NOT EXISTS (SELECT 1 FROM {outbox} o WHERE o.id = d.id AND o.source = d.source AND o.tenant = d.tenant)
   AND NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = d.id AND w.source = d.source AND w.tenant = d.tenant AND w.destination = d.destination)
ON CONFLICT DO NOTHING`

	copyToWaitingSQL = `
INSERT INTO {outbox_waiting} (lane, position, destination, deliver_at, enqueued_at, life, due_at, ` + sqlstore.MessageFields + `)
SELECT m.lane, m.position, m.destination, m.deliver_at, m.enqueued_at, 1,
       CASE WHEN ` + behindSQL("m", "m.destination") + ` THEN NULL ELSE {clock}() END, ` + messageParams(2) + `
  FROM (SELECT lane, position, destination, deliver_at, enqueued_at, $3::text AS topic, $5::text AS key
          FROM {dead_letters} WHERE number = $1) m
ON CONFLICT DO NOTHING`

	copyLetterSQL = `
INSERT INTO {dead_letters} (origin, consumer, reason, error, attempts, failed, first_failed_at, last_failed_at, history, deliver_at, enqueued_at,
    alias, message_key, fingerprint, life, requeued_at, ` + sqlstore.MessageFields + `)
SELECT d.origin, d.consumer, d.reason, d.error, d.attempts, d.failed, d.first_failed_at, d.last_failed_at, d.history, d.deliver_at, d.enqueued_at,
    $2, $3, $4, 1, {clock}(), ` + messageParams(5) + `
  FROM {dead_letters} d WHERE d.number = $1`
)

const settleLetterSQL = `
UPDATE {dead_letters} SET state = $2, resolution = $3, resolved_at = {clock}(), requeued_at = NULL, parks = false WHERE number = $1`

const auditSQL = `
INSERT INTO {audit_log} (action, actor, why, letter, message_id, replay, detail) VALUES ($1, $2, $3, $4, $5, $6, $7)`

// RequeueDeadLetter implements [deadletter.Store].
func (s *Store[Tx]) RequeueDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	s.clean.empty()
	return s.core.RequeueDeadLetter(ctx, number, act)
}

// EditDeadLetter implements [deadletter.Store].
func (s *Store[Tx]) EditDeadLetter(ctx context.Context, number int64, edit deadletter.Edit, act deadletter.Act) (string, error) {
	s.clean.empty()
	return s.core.EditDeadLetter(ctx, number, edit, act)
}
