package conformance

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/store/pgstore"
	"github.com/waybill-go/waybill/store/sqlitestore"
	"github.com/waybill-go/waybill/store/storetest"
)

// A transaction that fails in the middle of a replay's batch, or at its end, leaves letters
// and cursor as they were.
func TestPostgresReplayRolledBack(t *testing.T) {
	t.Parallel()
	p := newPostgres(t, nil, pgstore.Config{})
	s := p.pgxHarness().Open(t)
	own := s.(*postgresStore[pgx.Tx])
	exec := func(stmt string) {
		t.Helper()
		_, err := p.pool.Exec(context.Background(), stmt)
		must(t, err)
	}
	refuse := own.table("refuse")
	exec("CREATE FUNCTION " + refuse + `() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$`)
	replayRolledBack(t, s, func(table, condition string) (lift func()) {
		exec("CREATE TRIGGER refuse BEFORE UPDATE ON " + own.table(table) + " FOR EACH ROW WHEN (" + condition + ") EXECUTE FUNCTION " + refuse + "()")
		return func() { exec("DROP TRIGGER refuse ON " + own.table(table)) }
	})
	exec("DROP FUNCTION " + refuse)
}

func TestSQLiteReplayRolledBack(t *testing.T) {
	t.Parallel()
	s := sqliteHarness("_pragma=busy_timeout(5000)&_txlock=immediate", sqlitestore.Config{}).Open(t)
	exec := func(stmt string) { t.Helper(); must(t, s.(*sqliteStore).exec(stmt)) }
	replayRolledBack(t, s, func(table, condition string) (lift func()) {
		exec("CREATE TRIGGER refuse BEFORE UPDATE ON waybill_" + table + " WHEN " + condition + " BEGIN SELECT RAISE(ABORT, 'refused'); END")
		return func() { exec("DROP TRIGGER refuse") }
	})
}

// replayRolledBack is given a function that lets updates of a table fail under a condition.
func replayRolledBack[Tx any](t *testing.T, s storetest.Store[Tx], refuse func(table, condition string) (lift func())) {
	t.Helper()
	ctx := t.Context()
	for i := range 5 {
		m := waybill.Message{ID: fmt.Sprint("a", i), Topic: "orders", Source: "shop"}
		_, err := s.BuryMessage(ctx, inbox.Letter{Record: inbox.RecordOf("billing", &m), Message: m, Reason: waybill.ReasonExhausted, Error: "no", Attempts: 1})
		must(t, err)
	}
	number, err := s.StartReplay(ctx, deadletter.Plan{}, deadletter.Act{By: "test"})
	must(t, err)
	for table, condition := range map[string]string{"dead_letters": "new.id = 'a3'", "replays": "true"} {
		lift := refuse(table, condition)
		if r, err := s.AdvanceReplay(ctx, number, 10); err == nil {
			t.Errorf("AdvanceReplay() = %+v, want an error: %s refuses", r, table)
		}
		lift()
		r, err := s.Replay(ctx, number)
		must(t, err)
		letters, err := s.DeadLetters(ctx, deadletter.Filter{})
		must(t, err)
		for _, l := range letters {
			if l.Requeued || r.Requeued != 0 || r.Skipped != 0 {
				t.Fatalf("after a rollback because of %s: letter = %+v, replay = %+v, want nothing changed", table, l, r)
			}
		}
	}
	r, err := s.AdvanceReplay(ctx, number, 10)
	if err != nil || r.Requeued != 5 || r.Skipped != 0 || r.State != deadletter.Done {
		t.Errorf("AdvanceReplay() = %+v, %v, want all five requeued", r, err)
	}
}
