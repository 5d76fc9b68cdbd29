package pgstore

import "github.com/waybill-go/waybill/internal/sqlstore"

// The notes of attempts that were begun. They are rows of their own transaction, so that they
// stay if the process ends within the attempt. A row without a failed attempt is due at once.
//
// A handler's transaction may hold them.
const (
	saveStartsSQL = `
INSERT INTO {consumer_attempts} (tenant, consumer, source, alias, message_key, starts, attempts, due_at, error, first_failed_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, CASE WHEN ` + lockSoon + ` THEN 0 END, {clock}(), '', {clock}(), {clock}())
ON CONFLICT (tenant, consumer, source, alias, message_key) DO UPDATE
   SET starts = excluded.starts, updated_at = excluded.updated_at`

	clearStartsSQL = `UPDATE {consumer_attempts} SET starts = 0, updated_at = {clock}() WHERE ` + lockSoon + ` AND ` + sqlstore.InboxKey
)
