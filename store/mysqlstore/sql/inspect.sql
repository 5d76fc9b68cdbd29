-- The messages of each place. Each table is queried with the condition itself, in which {status} is
-- the status there.

-- name: message_states
SELECT {state_columns} FROM ({states "id = $1"}) s ORDER BY enqueued_at, destination

-- name: outbox_messages
SELECT {state_columns}
  FROM ({states asked_for}) s
 ORDER BY enqueued_at, id, destination LIMIT $7

-- fragment: asked_for
($1 = '' AND {status} IN ('Pending', 'Waiting', 'Scheduled') OR {status} = $1) AND {message_filter}

-- fragment: elsewhere
-- Lists the messages that are scheduled or published.
SELECT topic, status, '', {elsewhere_since}
  FROM ({states "{status} IN ('Scheduled', 'Published')"}) s

-- fragment: oldest
-- The age of the oldest, in seconds.
({now} - greatest(min(since), 0)) / 1000000.0

-- fragment: as_text column
-- A column for LIKE: what is kept as bytes has no upper and lower case until it is made text.
CONVERT({.column} USING utf8mb4)
