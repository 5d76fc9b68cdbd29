package sagatest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/store/memstore"
)

// newOrder is the data of the second version.
type newOrder struct {
	Done string `json:"done"`
}

// second is the second version of withRules: what is paid is packed before it is sent.
func second(t *testing.T, store saga.Store[tx]) *saga.Saga[tx, newOrder] {
	t.Helper()
	s, err := saga.New[tx, newOrder](store, saga.Config{Name: "orders", Version: 2, Source: "shop", Topic: own, Observer: observe.Observers()})
	if err != nil {
		t.Fatal(err)
	}
	type rule = saga.Rule[tx, newOrder]
	lead := func(to string) saga.Do[tx, newOrder] {
		return func(_ context.Context, c *saga.Context[tx, newOrder], _ *waybill.Message) error {
			c.Data.Done += " " + to
			c.Become(to)
			return nil
		}
	}
	s.On("placed", rule{Key: bySubject, Missing: saga.Start, Do: lead("open")})
	s.On("paid", rule{Key: bySubject, From: []string{"open"}, To: []string{"packing"}, Do: lead("packing")})
	return s
}

// begun returns a store with the order a on version 1.
func begun(t *testing.T) *memstore.Store {
	t.Helper()
	store := memstore.New()
	if err := handle(rules(t, store), store, message("placed", "a")); err != nil {
		t.Fatal(err)
	}
	return store
}

// deliver handles a message by a saga of the second version.
func deliver(s *saga.Saga[tx, newOrder], store *memstore.Store, m waybill.Message) error {
	tx, err := store.Begin(context.Background())
	if err != nil {
		return err
	}
	defer tx.Rollback()
	m.Complete()
	if err := s.Handle(waybill.WithMessage(context.Background(), &m), tx, &m); err != nil {
		return err
	}
	tx.Commit()
	return nil
}

func wantStored(t *testing.T, store *memstore.Store, key string, definition int, status saga.Status, data string) {
	t.Helper()
	in, err := store.Saga(t.Context(), idOf(key))
	if err != nil {
		t.Fatal(err)
	}
	if in.Definition != definition || in.Status != status || string(in.Data) != data {
		t.Errorf("%s is %s on version %d with %s, want %s on %d with %s", key, in.Status, in.Definition, in.Data, status, definition, data)
	}
}

// TestKeep: what runs on the old version ends on it, what begins is on the new one.
func TestKeep(t *testing.T) {
	t.Parallel()
	store := begun(t)
	s := second(t, store)
	old := rules(t, store)
	old.On("ordered", rule{Key: bySubject, Missing: saga.Start, Do: func(context.Context, *change, *waybill.Message) error { return nil }})
	s.Keep(old)
	for _, m := range []waybill.Message{message("placed", "b"), message("changed", "a"), message("paid", "a"), message("paid", "b"), message("changed", "c")} {
		if err := deliver(s, store, m); err != nil {
			t.Fatalf("%s: %v", m.ID, err)
		}
	}
	wantStored(t, store, "a", 1, saga.Completed, `{"did":["bill","change changed a","ship"]}`)
	wantStored(t, store, "b", 2, saga.Running, `{"done":" open packing"}`)
	if err := deliver(s, store, message("changed", "b")); waybill.ReasonOf(err) != waybill.ReasonUnknownType {
		t.Errorf("a message that only the old version knows, for an instance of the new one: %v, want unknown_type", err)
	}
	if err := deliver(s, store, message("ordered", "d")); waybill.ReasonOf(err) != waybill.ReasonRejected {
		t.Errorf("a start that only the old version knows: %v, want rejected", err)
	}
}

// TestMigrate: what runs on the old version goes on with the new one, from its next message.
func TestMigrate(t *testing.T) {
	t.Parallel()
	store := begun(t)
	s := second(t, store)
	s.Migrate(1, func(old *saga.Instance) (newOrder, error) {
		var data order
		if err := json.Unmarshal(old.Data, &data); err != nil {
			return newOrder{}, err
		}
		old.State = "open"
		return newOrder{Done: data.Did[0]}, nil
	})
	wantStored(t, store, "a", 1, saga.Running, `{"did":["bill"]}`)
	if err := deliver(s, store, message("paid", "a")); err != nil {
		t.Fatal(err)
	}
	wantStored(t, store, "a", 2, saga.Running, `{"done":"bill packing"}`)
	log, err := store.SagaLog(t.Context(), idOf("a"), 1, 10)
	if err != nil || len(log) != 1 || log[0].Definition != 2 || log[0].From != "open" || log[0].To != "packing" {
		t.Errorf("SagaLog() = %+v, %v; want the change to version 2", log, err)
	}
}

// TestMigrate_Fails: then nothing is changed, and the message is tried again.
func TestMigrate_Fails(t *testing.T) {
	t.Parallel()
	store := begun(t)
	s := second(t, store)
	s.Migrate(1, func(*saga.Instance) (newOrder, error) { return newOrder{}, errors.New("no way") })
	if err := deliver(s, store, message("paid", "a")); !waybill.IsTransient(err) {
		t.Errorf("Handle() = %v, want a transient error", err)
	}
	wantStored(t, store, "a", 1, saga.Running, `{"did":["bill"]}`)
}

// TestUnknownVersion: an instance of a version that this program does not know waits for one that
// does, whether it is newer or older.
func TestUnknownVersion(t *testing.T) {
	t.Parallel()
	older := begun(t)
	if err := deliver(second(t, older), older, message("paid", "a")); !waybill.IsUnavailable(err) {
		t.Errorf("an older instance: Handle() = %v, want unavailable", err)
	}
	newer := memstore.New()
	if err := deliver(second(t, newer), newer, message("placed", "a")); err != nil {
		t.Fatal(err)
	}
	if err := handle(rules(t, newer), newer, message("paid", "a")); !waybill.IsUnavailable(err) {
		t.Errorf("a newer instance: Handle() = %v, want unavailable", err)
	}
}
