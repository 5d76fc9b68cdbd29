package pgstore

const (
	messageStatesSQL = `
SELECT id, status, topic, destination, type, source, tenant, key, attempts, error, enqueued_at, due_at, published_at
  FROM {messages} WHERE id = $1 ORDER BY enqueued_at, destination`

	outboxStatsSQL = `
SELECT topic, status, count(*), extract(epoch FROM {clock}() - min(enqueued_at))::float8
  FROM {messages} GROUP BY topic, status ORDER BY topic, status`
)
