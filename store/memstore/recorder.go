package memstore

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
)

// AddRecord implements [inbox.Recorder].
func (s *Store) AddRecord(_ context.Context, tx *Tx, rec inbox.Record) (bool, error) {
	if err := tx.given(); err != nil {
		return false, err
	}
	if _, ok := s.data.inbox[rec.Key]; ok {
		return false, nil
	}
	put(tx, s.data.inbox, rec.Key, record{Record: rec, processedAt: s.now()})
	if rec.Retried {
		drop(tx, s.data.attempts, rec.Key)
	}
	return true, nil
}

// FindRecord implements [inbox.Recorder].
func (s *Store) FindRecord(_ context.Context, tx *Tx, key inbox.Key) (inbox.StoredRecord, bool, error) {
	if err := tx.given(); err != nil {
		return inbox.StoredRecord{}, false, err
	}
	r, ok := s.data.inbox[key]
	if !ok {
		return inbox.StoredRecord{}, false, nil
	}
	r.Retried, r.At = false, nil // they are not stored
	return inbox.StoredRecord{Record: r.Record, ProcessedAt: r.processedAt.UTC(), Dead: r.dead}, true, nil
}

// RemoveRecords implements [inbox.Recorder].
func (s *Store) RemoveRecords(_ context.Context, tx *Tx, tenant string, age time.Duration, limit int) (int, error) {
	if err := tx.given(); err != nil {
		return 0, err
	}
	if tenant == "" {
		return 0, &waybill.InvalidError{Field: "tenant", Reason: "is required"}
	}
	removed := 0
	for key, r := range s.data.inbox {
		if removed == limit {
			break
		}
		if key.Tenant == tenant && !r.dead && s.now().Sub(r.processedAt) >= age {
			drop(tx, s.data.inbox, key)
			removed++
		}
	}
	return removed, nil
}
