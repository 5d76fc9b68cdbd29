package conformance

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/store/pgstore"
)

// requeueStore is a store with letters that can be requeued and run.
type requeueStore[Tx any] interface {
	contract.Inbox[Tx]
	deadletter.Store
}

// testRequeuedPassedOver runs a letter that another consumer's search for letters has locked, for the
// moment in which it passes it over. It is run when that moment has gone: only its lease would bring it
// back.
func testRequeuedPassedOver[Tx any](t *testing.T, s requeueStore[Tx], other *sql.Tx, lock string, waits func() bool) {
	t.Helper()
	m := waybill.Message{ID: "m", Topic: "orders", Source: "shop"}
	m.Complete()
	_, err := s.BuryMessage(t.Context(), inbox.Letter{Record: inbox.RecordOf("billing", &m), Message: m, Reason: waybill.ReasonRejected, Error: "no", Attempts: 1})
	must(t, err)
	letters, err := s.DeadLetters(t.Context(), deadletter.Filter{Consumer: "billing"})
	must(t, err)
	_, err = s.RequeueDeadLetter(t.Context(), letters[0].Number, deadletter.Act{By: "ann"})
	must(t, err)
	letter, _, err := s.TakeRequeued(t.Context(), "billing", time.Hour)
	must(t, err)
	_, err = other.Exec(lock)
	must(t, err)
	calls, ran := 0, make(chan bool, 1)
	go func() {
		found, err := s.RunRequeued(t.Context(), letter, "n", func(context.Context, Tx) error { calls++; return nil })
		if err != nil {
			t.Errorf("RunRequeued: %v", err)
		}
		ran <- found
	}()
	waitFor(t, "the run waits, or ends", func() bool { return waits() || len(ran) > 0 })
	must(t, other.Rollback())
	if found := <-ran; !found || calls != 1 {
		t.Errorf("RunRequeued() = %v with %d calls, want one call when the lock has gone", found, calls)
	}
}

func TestPostgresStore_RequeuedPassedOver(t *testing.T) {
	t.Parallel()
	p := newPostgres(t, nil, pgstore.Config{})
	cfg := p.schema(t)
	s, err := pgstore.New(p.pool, cfg)
	must(t, err)
	table := tableOf(cfg, "dead_letters")
	testRequeuedPassedOver[pgx.Tx](t, s, beginSQL(t, p.db), "SELECT 1 FROM "+table+" FOR UPDATE", func() (waits bool) {
		must(t, p.db.QueryRow("SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%')", table).Scan(&waits))
		return waits
	})
}

func TestMySQLStore_RequeuedPassedOver(t *testing.T) {
	t.Parallel()
	s := newMySQLStore(t, nil)
	testRequeuedPassedOver[*sql.Tx](t, s, beginSQL(t, s.db), "SELECT 1 FROM waybill_dead_letters FOR UPDATE", func() (waits bool) {
		must(t, s.db.QueryRow("SELECT EXISTS (SELECT 1 FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE 'SELECT number FROM %requeued_at IS NOT NULL FOR UPDATE')").Scan(&waits))
		return waits
	})
}
