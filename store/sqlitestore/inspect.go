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

	outboxStatsSQL   = countedSQL + `(` + sqlstore.OnItsWaySQL + ` UNION ALL ` + sqlstore.ElsewhereSQL + ` UNION ALL ` + sqlstore.GivenUpSQL + `) m` + byTopicSQL
	outboxBacklogSQL = countedSQL + `(` + sqlstore.OnItsWaySQL + `) m` + byTopicSQL

	countedSQL = `SELECT topic, status, consumer, count(*), ({now} - min(since)) / 1000000.0 FROM `
	byTopicSQL = ` GROUP BY topic, status, consumer ORDER BY topic, status, consumer`
)
