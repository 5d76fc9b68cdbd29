package conformance

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/store/memstore"
	"github.com/waybill-go/waybill/store/storetest"
)

// memStore is a store with its clock.
type memStore struct {
	*memstore.Store
	mu     sync.Mutex
	offset time.Duration
}

func (s *memStore) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.offset)
}

func (s *memStore) move(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset += d
}

func TestMemStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Harness[*memstore.Tx]{
		Features: storetest.Features{Lanes: 64, Traffic: true, Endless: true, HearsCommits: true, InboxBatches: true, Offsets: true, Schedules: true, Sagas: true},
		Open: func(*testing.T) storetest.Store[*memstore.Tx] {
			s := &memStore{}
			s.Store = memstore.New(memstore.WithClock(s.now))
			return s
		},
		Begin: func(t *testing.T, s storetest.Store[*memstore.Tx]) *memstore.Tx {
			tx, err := s.(*memStore).Begin(context.Background())
			must(t, err)
			return tx
		},
		Commit:   func(_ *testing.T, tx *memstore.Tx) { tx.Commit() },
		Rollback: func(_ *testing.T, tx *memstore.Tx) { tx.Rollback() },
		Effect: func(_ context.Context, _ storetest.Store[*memstore.Tx], tx *memstore.Tx, name string) error {
			n, _ := tx.Get(name).(int)
			tx.Set(name, n+1)
			return nil
		},
		Effects: func(_ *testing.T, s storetest.Store[*memstore.Tx], name string) int {
			n, _ := s.(*memStore).Value(name).(int)
			return n
		},
		Advance: func(_ *testing.T, s storetest.Store[*memstore.Tx], d time.Duration) {
			s.(*memStore).move(d)
		},
		Forget: func(t *testing.T, s storetest.Store[*memstore.Tx], key inbox.Key) {
			must(t, s.(*memStore).ForgetRecord(key))
		},
		InsertRaw: func(s storetest.Store[*memstore.Tx], raw storetest.Raw) error {
			return s.(*memStore).InsertRaw(raw.Topic, raw.Key, raw.Headers, raw.Payload)
		},
	})
}

// TestMemStore_EndedContext: a caller whose context has ended begins nothing, although the store is free.
func TestMemStore_EndedContext(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // it was a matter of luck once
		if tx, err := store.Begin(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("Begin() = %v, %v, want the error of the context", tx, err)
		}
	}
}

// TestMemStore_EndedTransaction: what comes in a transaction after its end is refused, since the store may be
// another one's by then, and a handler that ends its own has not processed its message.
func TestMemStore_EndedTransaction(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	old, err := store.Begin(t.Context())
	must(t, err)
	old.Rollback()
	open, err := store.Begin(t.Context())
	must(t, err)
	m := waybill.Message{ID: "1", Topic: "t", Type: "t", Source: "s"}
	var invalid *waybill.InvalidError
	if _, err := store.EnqueueMessages(t.Context(), old, outbox.Batch{Messages: []waybill.Message{m}}); !errors.As(err, &invalid) || invalid.Field != "tx" {
		t.Errorf("EnqueueMessages() = %v in a transaction that has ended, want an InvalidError of tx", err)
	}
	open.Commit()
	for name, end := range map[string]func(*memstore.Tx){"commits": (*memstore.Tx).Commit, "rolls back": (*memstore.Tx).Rollback} {
		rec := inbox.RecordOf(name, &m)
		if _, err := store.ProcessOnce(t.Context(), rec, func(_ context.Context, tx *memstore.Tx) error { end(tx); return nil }); err == nil {
			t.Errorf("ProcessOnce() = nil, and its handler %s", name)
		}
	}
}
