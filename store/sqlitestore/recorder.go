package sqlitestore

import "github.com/waybill-go/waybill/internal/sqlstore"

// findRecordSQL reads one record by the primary key.
const findRecordSQL = `
SELECT message_id, type, coalesce(payload_hash, ''), extra_data, processed_at, dead FROM {inbox} WHERE ` + sqlstore.InboxKey
