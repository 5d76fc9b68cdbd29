package compat

import (
	"context"
	"sync"
	"time"

	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
)

// table is an inbox table; its transaction is nothing, because what a transaction does to
// records is the stores' affair, and tested there.
type table struct {
	rows map[inbox.Key]inbox.StoredRecord
	now  time.Time
}

type noTx struct{}

func newTable() *table {
	return &table{rows: make(map[inbox.Key]inbox.StoredRecord), now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
}

func (t *table) AddRecord(_ context.Context, _ noTx, rec inbox.Record) (bool, error) {
	if _, ok := t.rows[rec.Key]; ok {
		return false, nil
	}
	t.rows[rec.Key] = inbox.StoredRecord{Record: rec, ProcessedAt: t.now}
	return true, nil
}

func (t *table) FindRecord(_ context.Context, _ noTx, key inbox.Key) (inbox.StoredRecord, bool, error) {
	rec, ok := t.rows[key]
	return rec, ok, nil
}

func (t *table) RemoveRecords(_ context.Context, _ noTx, tenant string, age time.Duration, limit int) (int, error) {
	n := 0
	for key, rec := range t.rows {
		if n < limit && key.Tenant == tenant && t.now.Sub(rec.ProcessedAt) >= age {
			delete(t.rows, key)
			n++
		}
	}
	return n, nil
}

// keyStore is an inbox as somebody has written it for himself.
type keyStore struct {
	mu   sync.Mutex
	done map[string]bool
	err  error
}

func newKeyStore() *keyStore { return &keyStore{done: make(map[string]bool)} }

func (s *keyStore) IsProcessed(_ context.Context, key string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done[key], s.err
}

func (s *keyStore) MarkProcessed(_ context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.done[key] = true
	}
	return s.err
}

// leases answers as a lease store would, from a script of its keys' states.
type leases struct {
	lease.Store // nil: nothing else is called
	state       map[string]lease.Status
	lost        bool // a begun lease is lost before its mark
}

func (s *leases) TryBegin(_ context.Context, req lease.Request) (lease.Answer, error) {
	if err := req.Validate(); err != nil {
		return lease.Answer{}, err
	}
	if status, ok := s.state[req.Key]; ok {
		return lease.Answer{Status: status}, nil
	}
	return lease.Answer{Status: lease.Acquired, LeaseID: "lease-1", Token: 7, Attempts: 1}, nil
}

func (s *leases) MarkProcessed(_ context.Context, l lease.Lease) (lease.Status, error) {
	if s.lost || l.ID != "lease-1" || l.Token != 7 {
		return lease.Lost, nil
	}
	s.state[l.Key] = lease.Processed
	return lease.Processed, nil
}

func (s *leases) ReadLease(_ context.Context, key string) (lease.Record, error) {
	if status, ok := s.state[key]; ok {
		return lease.Record{Status: status}, nil
	}
	return lease.Record{Status: lease.Unknown}, nil
}
