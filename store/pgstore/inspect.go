package pgstore

import "github.com/waybill-go/waybill/internal/sqlstore"

const messageFilter = `($2 = '' OR topic = $2) AND ($3 = '' OR tenant = $3) AND ($4 = '' OR key = $4)
   AND ($5 = '' OR correlation_id = $5) AND ($6 = 0::float8 OR enqueued_at <= {clock}() - $6 * interval '1 millisecond') AND ` + sqlstore.MessageText

const (
	messageStatesSQL = `
SELECT ` + sqlstore.StateColumns + `
  FROM {messages} WHERE id = $1 ORDER BY enqueued_at, destination`

	// outboxMessagesSQL reads only the tables that the status is of: in the others it is
	// another constant.
	outboxMessagesSQL = `
SELECT ` + sqlstore.StateColumns + `
  FROM {messages}
 WHERE ($1 = '' AND status IN ('Pending', 'Waiting', 'Scheduled') OR status = $1) AND ` + messageFilter + `
 ORDER BY enqueued_at, id, destination LIMIT $7`

	// publishedMessagesSQL goes back on the archive's primary key.
	publishedMessagesSQL = `
SELECT id, 'Published', topic, destination, type, source, tenant, key, attempts, '', enqueued_at, NULL::timestamptz, published_at
  FROM {outbox_archive}
 WHERE $1::text <> '' AND ` + messageFilter + `
 ORDER BY published_at DESC LIMIT $7`

	outboxStatsSQL   = countedSQL + `(` + sqlstore.OnItsWaySQL + ` UNION ALL ` + sqlstore.ElsewhereSQL + ` UNION ALL ` + sqlstore.GivenUpSQL + `) m` + byTopicSQL
	outboxBacklogSQL = countedSQL + `(` + sqlstore.OnItsWaySQL + `) m` + byTopicSQL

	countedSQL = `SELECT topic, status, consumer, count(*), extract(epoch FROM {clock}() - min(since))::float8 FROM `
	byTopicSQL = ` GROUP BY topic, status, consumer ORDER BY topic, status, consumer`
)

// relayStatesSQL names a lane's owner only while the relay is there: the others are free.
const relayStatesSQL = `
SELECT * FROM (
SELECT r.node COLLATE "C" AS node, r.started_at, r.expires_at, r.expires_at > {clock}() AS alive, l.lane, l.since
  FROM {relays} r LEFT JOIN {relay_lanes} l ON l.owner = r.node
UNION ALL
SELECT '', NULL, NULL, false, lane, since
  FROM {relay_lanes} WHERE owner IS NULL OR owner NOT IN (SELECT node FROM {relays})
) s ORDER BY node, lane`

// inboxStatesSQL has no index to go by: the keys begin with tenant and consumer. A compact
// record is found by trying the id as the key in each scope.
const inboxStatesSQL = `
SELECT tenant, consumer, source, alias, message_key, message_id, type,
       CASE WHEN NOT dead THEN processed_at END, CASE WHEN dead THEN processed_at END, 0, NULL::timestamptz, ''
  FROM {inbox} WHERE (message_id = $1 OR message_key = $1) AND ($2 = '' OR consumer = $2)
UNION ALL
SELECT s.tenant, s.consumer, s.source, s.alias, $1, $1, s.type,
       CASE WHEN NOT c.dead THEN c.processed_at END, CASE WHEN c.dead THEN c.processed_at END, 0, NULL, ''
  FROM {inbox_scopes} s JOIN {inbox_compact} c ON c.key = {inbox_key}(s.tenant, s.consumer, s.source, s.alias, $1) AND c.scope = s.id
 WHERE $1 <> '' AND ($2 = '' OR s.consumer = $2)
UNION ALL
SELECT tenant, consumer, source, alias, message_key, '', '', NULL, NULL, attempts, due_at, error
  FROM {consumer_attempts} a
 WHERE message_key = $1 AND ($2 = '' OR consumer = $2)
   AND NOT EXISTS (SELECT 1 FROM {inbox} i WHERE i.tenant = a.tenant AND i.consumer = a.consumer AND i.source = a.source
                      AND i.alias = a.alias AND i.message_key = a.message_key)
   AND NOT EXISTS (SELECT 1 FROM {inbox_compact} c WHERE c.key = {inbox_key}(a.tenant, a.consumer, a.source, a.alias, a.message_key))
 ORDER BY 2, 1, 3, 4, 5`

// inboxSizeSQL finds the oldest record by the index on the time, and takes the number from
// what vacuum has counted last: -1 before its first time.
const inboxSizeSQL = `
SELECT CASE WHEN max(c.reltuples) < 0 THEN -1 ELSE sum(greatest(c.reltuples, 0)) END::bigint,
       extract(epoch FROM {clock}() - min(i.processed_at))::float8
  FROM ((SELECT tableoid, processed_at FROM {inbox} ORDER BY processed_at LIMIT 1) UNION ALL
        (SELECT tableoid, processed_at FROM {inbox_compact} ORDER BY processed_at LIMIT 1)) i
  JOIN pg_catalog.pg_class c ON c.oid = i.tableoid
HAVING count(*) > 0`
