package pgstore

const (
	messageStatesSQL = `
SELECT id, status, topic, destination, type, source, tenant, key, attempts, error, enqueued_at, due_at, published_at
  FROM {messages} WHERE id = $1 ORDER BY enqueued_at, destination`

	outboxStatsSQL = `
SELECT topic, status, count(*), extract(epoch FROM {clock}() - min(enqueued_at))::float8
  FROM {messages} GROUP BY topic, status ORDER BY topic, status`

	// Not from the view: it would read all dead letters to compute what their status is.
	outboxBacklogSQL = `
SELECT topic, status, count(*), extract(epoch FROM {clock}() - min(enqueued_at))::float8
  FROM (SELECT topic, CASE WHEN deliver_at > {clock}() THEN 'Scheduled' ELSE 'Pending' END AS status, enqueued_at FROM {outbox}
        UNION ALL SELECT topic, 'Waiting', enqueued_at FROM {outbox_waiting}
        UNION ALL SELECT topic, 'Scheduled', enqueued_at FROM {scheduled}) backlog
 GROUP BY topic, status ORDER BY topic, status`
)
