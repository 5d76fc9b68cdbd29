package sqlitestore

import (
	"fmt"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

const lockLetterSQL = `
SELECT origin, state, requeued_at IS NOT NULL, origin = 'consumer' AND message_key = '', topic, id
  FROM {dead_letters} WHERE number = $1`

// pendsBeforeSQL tells of what is in the outbox before a letter: it goes to the waiting rows only when a relay
// lets it wait, so nothing can be put behind it. Served by the primary key.
const pendsBeforeSQL = `
SELECT 1
  FROM {dead_letters} d
  JOIN {outbox} o ON o.position < d.position AND o.topic = $2 AND o.key = d.key
 WHERE d.number = $1 AND d.key <> ''
 LIMIT 1`

// A relay's letter keeps id, key and position and starts its next life in the waiting rows,
// where it is due now unless it is behind something in its unit. So does the corrected copy
// of a message, in the unit that it now belongs to. A message and its copy have one place: one of them
// waits there at a time.
var (
	requeueRelaySQL = `
INSERT INTO {outbox_waiting} (position, {message}, destination, life, letter, replay, history, due_at)
SELECT d.position, {d.message}, d.destination, d.life + 1, d.number, $2, d.history,
       CASE WHEN ` + behindSQL("d", "d.destination") + ` THEN NULL ELSE {now} END
  FROM {dead_letters} d
 WHERE d.number = $1
   AND NOT EXISTS (SELECT 1 FROM {outbox} o WHERE o.id = d.id AND o.source = d.source AND o.tenant = d.tenant)
   AND NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = d.id AND w.source = d.source AND w.tenant = d.tenant AND w.destination = d.destination)
ON CONFLICT DO NOTHING`

	copyToWaitingSQL = `
INSERT INTO {outbox_waiting} (position, destination, deliver_at, enqueued_at, life, due_at, ` + sqlstore.MessageFields + `)
SELECT m.position, m.destination, m.deliver_at, m.enqueued_at, 1,
       CASE WHEN ` + behindSQL("m", "m.destination") + ` THEN NULL ELSE {now} END, ` + sqlstore.MessageParams(2) + `
  FROM (SELECT position, destination, deliver_at, enqueued_at, $3 AS topic, $5 AS key FROM {dead_letters} WHERE number = $1) m
 WHERE true
ON CONFLICT DO NOTHING`

	copyLetterSQL = `
INSERT INTO {dead_letters} (origin, consumer, reason, error, attempts, failed, first_failed_at, last_failed_at, history, deliver_at, enqueued_at,
    alias, message_key, fingerprint, life, requeued_at, ` + sqlstore.MessageFields + `)
SELECT d.origin, d.consumer, d.reason, d.error, d.attempts, d.failed, d.first_failed_at, d.last_failed_at, d.history, d.deliver_at, d.enqueued_at,
    $2, $3, $4, 1, {now}, ` + sqlstore.MessageParams(5) + `
  FROM {dead_letters} d WHERE d.number = $1`
)

// withAttempt is a history with one more attempt; the second one makes room if it is full.
// Times are microseconds since 1970.
func withAttempt(history, node, took, errText string) string {
	return fmt.Sprintf(`json_insert(CASE WHEN json_array_length(%[1]s) >= %[5]d THEN json_remove(%[1]s, '$[1]') ELSE coalesce(%[1]s, '[]') END,
    '$[#]', json_object('at', {now}, 'node', %[2]s, 'took', %[3]s, 'error', %[4]s))`, history, node, took, errText, deadletter.MaxHistory)
}
