package mysqlstore

import "github.com/waybill-go/waybill/internal/sqlstore"

// The notes of attempts that were begun. They are rows of their own transaction, so that they
// stay if the process ends within the attempt. A row without a failed attempt is due at once.
const (
	saveStartsSQL = `
INSERT INTO {consumer_attempts} (tenant, consumer, source, alias, message_key, starts, attempts, due_at, error, first_failed_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, 0, {now}, '', {now}, {now})
ON DUPLICATE KEY UPDATE starts = $6, updated_at = {now}`

	clearStartsSQL = `UPDATE {consumer_attempts} SET starts = 0, updated_at = {now} WHERE ` + sqlstore.InboxKey
)
