package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// AddRecord implements [inbox.Recorder], by the same insert as ProcessOnce.
func (c *Core[Tx]) AddRecord(ctx context.Context, tx Tx, rec inbox.Record) (bool, error) {
	conn := c.DB.On(tx)
	if c.BeforeGate != nil {
		if err := c.BeforeGate(ctx, conn, rec); err != nil { // another connection might wait for this one
			return false, c.Kind(err)
		}
	}
	n, err := conn.Exec(ctx, c.SQL.Gate, RecordArgs(rec)...)
	if err != nil {
		return false, c.Kind(fmt.Errorf("insert inbox record: %w", err))
	}
	if rec.Retried && n > 0 {
		if _, err := conn.Exec(ctx, c.SQL.ClearAttempts, keyArgs(rec.Key)...); err != nil {
			return false, c.Kind(fmt.Errorf("clear attempts: %w", err))
		}
	}
	return n > 0, nil
}

// FindRecord implements [inbox.Recorder]. The statement takes the key and returns message id,
// type, payload hash or "", extra data as text, the time, and whether it is dead.
func (c *Core[Tx]) FindRecord(ctx context.Context, tx Tx, key inbox.Key) (inbox.StoredRecord, bool, error) {
	rows, err := c.DB.On(tx).Query(ctx, c.SQL.FindRecord, keyArgs(key)...)
	rec, found, err := sqldb.One(rows, err, scanRecord)
	if !found {
		return inbox.StoredRecord{}, false, c.Kind(err)
	}
	rec.Key = key
	return rec, true, nil
}

func scanRecord(r sqldb.Rows) (v inbox.StoredRecord, err error) {
	var extra *string
	var at sqldb.Time
	err = r.Scan(&v.MessageID, &v.Type, &v.PayloadHash, &extra, &at, &v.Dead)
	if extra != nil {
		v.Extra = json.RawMessage(*extra)
	}
	v.ProcessedAt = at.UTC()
	return v, err
}

// RemoveRecords implements [inbox.Recorder], by the statement of the janitor, for which "" means
// all tenants.
func (c *Core[Tx]) RemoveRecords(ctx context.Context, tx Tx, tenant string, age time.Duration, limit int) (int, error) {
	if tenant == "" {
		return 0, &waybill.InvalidError{Field: "tenant", Reason: "is required"}
	}
	n, err := c.DB.On(tx).Exec(ctx, c.SQL.Cleanup.Purge.Inbox, Millis(age), tenant, limit)
	return int(n), c.Kind(err)
}
