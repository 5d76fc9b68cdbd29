package sqlitestore

import "github.com/waybill-go/waybill/internal/sqlstore"

const (
	messageStatesSQL = `
SELECT ` + sqlstore.StateColumns + `
  FROM {messages} WHERE id = $1 ORDER BY enqueued_at, destination`

	// outboxMessagesSQL reads only the tables that the status is of: in the others it is
	// another constant.
	outboxMessagesSQL = `
SELECT ` + sqlstore.StateColumns + `
  FROM {messages}
 WHERE ($1 = '' AND status IN ('Pending', 'Waiting', 'Scheduled') OR status = $1) AND ` + sqlstore.MessageFilter + `
 ORDER BY enqueued_at, id, destination LIMIT $7`

	outboxStatsSQL = `
SELECT topic, status, count(*), ({now} - min(enqueued_at)) / 1000000.0
  FROM {messages} GROUP BY topic, status ORDER BY topic, status`

	outboxBacklogSQL = `
SELECT topic, status, count(*), ({now} - min(enqueued_at)) / 1000000.0
  FROM {messages} WHERE status IN ('Pending', 'Waiting') GROUP BY topic, status ORDER BY topic, status`
)
