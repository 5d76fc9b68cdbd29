package conformance

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/store/pgstore"
	"github.com/waybill-go/waybill/store/sqlitestore"
)

// gateGivesUp has calls about a message meet a transaction that handles it and does not end.
func gateGivesUp[Tx any](t *testing.T, s contract.Inbox[Tx], rec inbox.Record) {
	t.Helper()
	handler := func(context.Context, Tx) error {
		return errors.New("the handler of a message ran that another transaction handles")
	}
	for name, call := range map[string]func() error{
		"ProcessOnce": func() error { _, err := s.ProcessOnce(t.Context(), rec, handler); return err },
		"SaveStarts":  func() error { return s.SaveStarts(t.Context(), rec.Key, 2) },
		"BuryMessage": func() error {
			m := waybill.Message{ID: rec.MessageID, Topic: "orders", Source: "shop"}
			m.Complete()
			_, err := s.BuryMessage(t.Context(), inbox.Letter{Record: rec, Message: m, Reason: waybill.ReasonRejected, Attempts: 1})
			return err
		},
	} {
		if err := call(); !errors.Is(err, inbox.ErrBusy) || !waybill.IsConflict(err) {
			t.Errorf("%s() = %v, want inbox.ErrBusy as a conflict", name, err)
		}
	}
}

// heldOf returns the record of a message of which an attempt is noted.
func heldOf[Tx any](t *testing.T, s contract.Inbox[Tx]) inbox.Record {
	t.Helper()
	rec := recordOf("held")
	must(t, s.SaveStarts(t.Context(), rec.Key, 1))
	rec.Retried = true
	return rec
}

// holding runs fn while the handler of rec runs.
func holding[Tx any](t *testing.T, s contract.Inbox[Tx], rec inbox.Record, fn func()) {
	t.Helper()
	_, err := s.ProcessOnce(t.Context(), rec, func(context.Context, Tx) error { fn(); return nil })
	must(t, err)
}

func TestPostgresStore_GateGivesUp(t *testing.T) {
	t.Parallel()
	for _, compact := range []bool{false, true} {
		p := newPostgres(t, nil, pgstore.Config{CompactInbox: compact})
		s, err := pgstore.New(p.pool, p.schema(t))
		must(t, err)
		rec := heldOf(t, s)
		holding(t, s, rec, func() { gateGivesUp(t, s, rec) })
	}
}

func TestMySQLStore_GateGivesUp(t *testing.T) {
	t.Parallel()
	s := newMySQLStore(t, nil)
	rec := heldOf(t, s)
	holding(t, s, rec, func() {
		gateGivesUp(t, s, rec)
		_, err := s.ProcessBatch(t.Context(), []inbox.Record{rec, recordOf("other")}, func(context.Context, *sql.Tx, []int) error { return nil })
		if !errors.Is(err, inbox.ErrBusy) {
			t.Errorf("ProcessBatch() = %v, want inbox.ErrBusy", err)
		}
	})
}

func TestSQLiteStore_GateGivesUp(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	first := migratedSQLite(t, path)
	second := openSQLite(t, path, "_pragma=busy_timeout(100)&_pragma=journal_mode(wal)", sqlitestore.Config{})
	rec := heldOf(t, first)
	holding(t, first, rec, func() { gateGivesUp(t, second, rec) })
}

func TestMongoStore_GateGivesUp(t *testing.T) {
	t.Parallel()
	client := mongoClient(t, mongoURL(t))
	s := openMongo(t, mongoDatabase(t, client), &mongoClock{})
	rec := heldOf[*mongo.Session](t, s)
	holding[*mongo.Session](t, s, rec, func() { gateGivesUp[*mongo.Session](t, s, rec) })
}
