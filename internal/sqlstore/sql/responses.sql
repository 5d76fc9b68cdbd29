-- fragment: replace_response
-- Ends the INSERT of a response in databases with ON CONFLICT. Of two concurrent ones the second
-- waits for the first, and leaves what that one stored.
ON CONFLICT (key) DO UPDATE SET response = excluded.response, expires_at = excluded.expires_at
 WHERE {idempotency_responses}.expires_at <= {now}

-- name: response_save
INSERT INTO {idempotency_responses} ({key}, response, expires_at) VALUES ($1, $2, {now} + {millis "$3"}) {replace_response}

-- name: response_find
SELECT response FROM {idempotency_responses} WHERE {key} = $1 AND expires_at > {now}

-- fragment: millis n
-- n milliseconds, to be added to a time.
CAST({.n} * 1000 AS {integer})
