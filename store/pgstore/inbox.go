package pgstore

import "github.com/waybill-go/waybill/internal/sqlstore"

// gateSQL decides who handles a message: the primary key lets one transaction insert, and a
// concurrent one waits here for its end.
const gateSQL = `
INSERT INTO {inbox} (tenant, consumer, source, alias, message_key, message_id, type, payload_hash, extra_data)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::text::jsonb)
ON CONFLICT (tenant, consumer, source, alias, message_key) DO NOTHING`

// gateOutcomeSQL is a statement of its own: within gateSQL a concurrent duplicate would not
// see the row that it has waited for.
const gateOutcomeSQL = `SELECT dead, coalesce(payload_hash, '') FROM {inbox} WHERE ` + sqlstore.InboxKey

const (
	clearAttemptsSQL = `DELETE FROM {consumer_attempts} WHERE ` + sqlstore.InboxKey

	readAttemptsSQL = `
SELECT attempts, greatest(0, extract(epoch FROM due_at - {clock}()) * 1000)::float8, starts, error
  FROM {consumer_attempts} WHERE ` + sqlstore.InboxKey

	saveAttemptsSQL = `
INSERT INTO {consumer_attempts} AS a (tenant, consumer, source, alias, message_key, attempts, due_at, error, first_failed_at, updated_at, history)
VALUES ($1, $2, $3, $4, $5, $6, {clock}() + $7 * interval '1 millisecond', $8, {clock}(), {clock}(), {with_attempt}(NULL, $9, $10, $8))
ON CONFLICT (tenant, consumer, source, alias, message_key) DO UPDATE
   SET attempts = excluded.attempts, due_at = excluded.due_at, error = excluded.error, updated_at = excluded.updated_at, starts = 0,
       first_failed_at = CASE WHEN a.attempts = 0 THEN excluded.first_failed_at ELSE a.first_failed_at END,
       history = CASE WHEN excluded.attempts > a.attempts THEN {with_attempt}(a.history, $9, $10, $8) ELSE a.history END`
)

const (
	gateDeadSQL = `
INSERT INTO {inbox} (tenant, consumer, source, alias, message_key, message_id, type, payload_hash, extra_data, dead)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::text::jsonb, ` + lockSoon + `)
ON CONFLICT (tenant, consumer, source, alias, message_key) DO NOTHING`
)

var addLetterSQL = `
WITH past AS (
    SELECT first_failed_at, history FROM {consumer_attempts}
     WHERE tenant = $11 AND consumer = $1 AND source = $12 AND alias = $2 AND message_key = $3
)
INSERT INTO {dead_letters} (origin, consumer, alias, message_key, reason, error, attempts, failed, fingerprint, history,
    first_failed_at, last_failed_at, enqueued_at, ` + sqlstore.MessageFields + `)
SELECT 'consumer', $1, $2, $3, $4, $5, $6, $7, $8, {with_attempt}((SELECT history FROM past), $9, $10, $5),
    coalesce((SELECT first_failed_at FROM past), {clock}()), {clock}(), {clock}(), ` + messageParams(13)

// The statements of a requeued letter's second chance. A lease keeps other replicas away until
// the handler's transaction holds the row's lock.
const (
	takeRequeuedSQL = `
UPDATE {dead_letters} SET requeued_at = {clock}() + $2 * interval '1 millisecond'
 WHERE number = (SELECT number FROM {dead_letters}
                  WHERE consumer = $1 AND requeued_at <= {clock}()
                  ORDER BY number LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING number, alias, message_key, {message}`

	// holdRequeuedSQL waits for the row: a replica that looks for a letter locks, for a moment, those that
	// it passes over.
	holdRequeuedSQL = `SELECT number FROM {dead_letters} WHERE number = $1 AND requeued_at IS NOT NULL FOR UPDATE`

	removeLetterSQL = `DELETE FROM {dead_letters} WHERE number = $1`

	// reviveSQL changes the record in whichever form it is.
	reviveSQL = `
WITH compact AS (
    UPDATE {inbox_compact} SET dead = false, processed_at = date_bin('10 seconds', {clock}(), 'epoch') WHERE key = {inbox_key}($1, $2, $3, $4, $5)
)
UPDATE {inbox} SET dead = false, processed_at = {clock}() WHERE ` + sqlstore.InboxKey

	// failRequeuedSQL makes the letter a dead one again ($4), or lets it wait ($5 ms).
	failRequeuedSQL = `
UPDATE {dead_letters}
   SET error = $2, reason = $3, last_failed_at = {clock}(), attempts = attempts + CASE WHEN $4 THEN 1 ELSE 0 END,
       requeued_at = CASE WHEN $4 THEN NULL ELSE {clock}() + $5 * interval '1 millisecond' END, fingerprint = $6,
       history = CASE WHEN $4 THEN {with_attempt}(history, $7, $8, $2) ELSE history END
 WHERE number = $1`
)
