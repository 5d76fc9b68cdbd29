package mysqlstore

import "github.com/waybill-go/waybill/internal/sqlstore"

// gateSQL decides who handles a message: the primary key lets one transaction insert, and a
// concurrent one waits here for its end.
const gateSQL = `
INSERT INTO {inbox} (tenant, consumer, source, alias, message_key, message_id, type, payload_hash, extra_data, processed_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, {now})
` + unlessThere

const gateDeadSQL = `
INSERT INTO {inbox} (tenant, consumer, source, alias, message_key, message_id, type, payload_hash, extra_data, processed_at, dead)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, {now}, 1)
` + unlessThere

const (
	gateOutcomeSQL = `SELECT dead, coalesce(payload_hash, '') FROM {inbox} WHERE ` + sqlstore.InboxKey

	// findRecordSQL reads one record by the primary key.
	findRecordSQL = `
SELECT message_id, type, coalesce(payload_hash, ''), extra_data, processed_at, dead FROM {inbox} WHERE ` + sqlstore.InboxKey

	readAttemptsSQL = `SELECT attempts, greatest(0, due_at - {now}) / 1000.0, starts, error FROM {consumer_attempts} WHERE ` + sqlstore.InboxKey

	clearAttemptsSQL = `DELETE FROM {consumer_attempts} WHERE ` + sqlstore.InboxKey
)

// saveAttemptsSQL changes attempts last: what comes before sees the old number.
var saveAttemptsSQL = `
INSERT INTO {consumer_attempts} (tenant, consumer, source, alias, message_key, attempts, due_at, error, first_failed_at, updated_at, history)
VALUES ($1, $2, $3, $4, $5, $6, {now} + CAST($7 * 1000 AS SIGNED), $8, {now}, {now}, ` + withAttempt("'[]'", "$9", "$10", "$8") + `)
ON DUPLICATE KEY UPDATE
       due_at = {now} + CAST($7 * 1000 AS SIGNED), error = $8, updated_at = {now}, starts = 0,
       first_failed_at = CASE WHEN attempts = 0 THEN {now} ELSE first_failed_at END,
       history = CASE WHEN $6 > attempts THEN ` + withAttempt("coalesce(history, '[]')", "$9", "$10", "$8") + ` ELSE history END,
       attempts = $6`

var addLetterSQL = `
INSERT INTO {dead_letters} (origin, consumer, alias, message_key, reason, error, attempts, failed, fingerprint, history,
    first_failed_at, last_failed_at, enqueued_at, ` + messageFields + `)
SELECT 'consumer', $1, $2, $3, $4, $5, $6, $7, $8, ` + withAttempt("coalesce(past.history, '[]')", "$9", "$10", "$5") + `,
    coalesce(past.first_failed_at, {now}), {now}, {now}, ` + sqlstore.MessageParams(13) + `
  FROM (SELECT 1 AS one) always
  LEFT JOIN {consumer_attempts} past
    ON past.tenant = $11 AND past.consumer = $1 AND past.source = $12 AND past.alias = $2 AND past.message_key = $3`

// The statements of a requeued letter's second chance. A lease keeps other replicas away until
// the handler's transaction holds the row's lock.
const (
	takeRequeuedSQL = `
SELECT number, alias, message_key, {message} FROM {dead_letters}
 WHERE consumer = $1 AND requeued_at <= {now}
 ORDER BY number LIMIT 1
   FOR UPDATE SKIP LOCKED`

	leaseRequeuedSQL = `UPDATE {dead_letters} SET requeued_at = {now} + CAST($2 * 1000 AS SIGNED) WHERE number = $1`

	// holdRequeuedSQL waits for the row: a replica that looks for a letter locks, for a moment, those that
	// it passes over.
	holdRequeuedSQL = `SELECT number FROM {dead_letters} WHERE number = $1 AND requeued_at IS NOT NULL FOR UPDATE`

	removeLetterSQL = `DELETE FROM {dead_letters} WHERE number = $1`

	reviveSQL = `UPDATE {inbox} SET dead = 0, processed_at = {now} WHERE ` + sqlstore.InboxKey
)

// failRequeuedSQL makes the letter a dead one again ($4), or lets it wait ($5 ms).
var failRequeuedSQL = `
UPDATE {dead_letters}
   SET error = $2, reason = $3, last_failed_at = {now}, attempts = attempts + $4,
       requeued_at = CASE WHEN $4 THEN NULL ELSE {now} + CAST($5 * 1000 AS SIGNED) END, fingerprint = $6,
       history = CASE WHEN $4 THEN ` + withAttempt("coalesce(history, '[]')", "$7", "$8", "$2") + ` ELSE history END
 WHERE number = $1`
