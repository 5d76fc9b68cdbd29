-- fragment: state_columns
-- The columns that a message's state is read from.
id, status, topic, destination, type, source, tenant, {key}, attempts, error, enqueued_at, due_at, published_at

-- fragment: message_text
-- The rest of the condition message_filter, on every store.
($8 = '' OR id = $8)
   AND ($9 = '' OR lower({as_text "id"}) LIKE lower($9) ESCAPE '!' OR lower({as_text key}) LIKE lower($9) ESCAPE '!' OR lower({as_text "correlation_id"}) LIKE lower($9) ESCAPE '!')

-- fragment: message_filter
-- The condition of a filter except its status. It is, with what is built on it, for stores that
-- keep times as microseconds.
($2 = '' OR topic = $2) AND ($3 = '' OR tenant = $3) AND ($4 = '' OR {key} = $4)
   AND ($5 = '' OR correlation_id = $5) AND ($6 = 0 OR enqueued_at <= {now} - CAST($6 * 1000 AS {integer})) AND {message_text}

-- name: published_messages
-- Goes back on the archive's primary key.
SELECT id, 'Published', topic, destination, CASE WHEN type = '' THEN topic ELSE type END, source, tenant, {key}, attempts, '', enqueued_at, NULL, published_at
  FROM {outbox_archive}
 WHERE $1 <> '' AND {message_filter}
 ORDER BY published_at DESC LIMIT $7

-- fragment: since
-- What the age of a pending message counts from: that of a scheduled one from when it came due.
CASE WHEN deliver_at > enqueued_at THEN deliver_at ELSE enqueued_at END AS since

-- fragment: on_its_way
-- Lists what is pending and what is waiting.
SELECT topic, 'Pending' AS status, '' AS consumer, {since} FROM {outbox} WHERE deliver_at IS NULL OR deliver_at <= {now}
        UNION ALL
        SELECT topic, 'Waiting', '', {since} FROM {outbox_waiting}

-- fragment: elsewhere_since
-- What the age of these counts from.
CASE WHEN status = 'Scheduled' THEN due_at ELSE enqueued_at END

-- fragment: elsewhere
-- Lists the messages that are scheduled or published, for stores with a view of all.
SELECT topic, status, '', {elsewhere_since} FROM {messages} WHERE status IN ('Scheduled', 'Published')

-- fragment: given_up
-- Lists the open dead letters, of relays and consumers, and those of the relay that were discarded.
SELECT topic, CASE WHEN failed THEN 'Failed' ELSE 'Dead' END, consumer, enqueued_at FROM {dead_letters} WHERE state = 'open' AND requeued_at IS NULL
        UNION ALL
        SELECT topic, 'Discarded', '', enqueued_at FROM {dead_letters} WHERE state = 'discarded' AND origin = 'relay'

-- fragment: as_text column
-- A column for LIKE.
{.column}

-- name: message_states
SELECT {state_columns}
  FROM {messages} WHERE id = $1 ORDER BY enqueued_at, destination

-- name: outbox_messages
-- Reads only the tables that the status is of: in the others it is
-- another constant.
SELECT {state_columns}
  FROM {messages}
 WHERE ($1 = '' AND status IN ('Pending', 'Waiting', 'Scheduled') OR status = $1) AND {message_filter}
 ORDER BY enqueued_at, id, destination LIMIT $7

-- fragment: oldest
-- The age of the oldest, in seconds.
({now} - min(since)) / 1000000.0

-- fragment: counted list
SELECT topic, status, consumer, count(*), {oldest} FROM ({.list}) m GROUP BY topic, status, consumer ORDER BY topic, status, consumer

-- fragment: everywhere
{on_its_way} UNION ALL {elsewhere} UNION ALL {given_up}

-- name: outbox_stats
{counted everywhere}

-- name: outbox_backlog
{counted on_its_way}
