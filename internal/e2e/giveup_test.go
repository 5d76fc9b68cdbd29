package e2e

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
)

// TestGiveUp: orders that cannot be billed are cancelled, in the transaction that records them
// as processed, also if that takes two tries. What GiveUp does not name is a dead letter.
//
//test:sessions
func TestGiveUp(t *testing.T) {
	t.Parallel()
	onAgendas(t, func(t *testing.T, a *agenda) {
		if _, err := a.db.Exec("CREATE TABLE cancelled (id VARCHAR(255), why VARCHAR(255))"); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		calls := map[string][]consumer.GivenUp{} // by message; the zero value is usual work
		handler := func(ctx context.Context, tx *sql.Tx, m *waybill.Message) error {
			given, ok := consumer.GivenUpFrom(ctx)
			mu.Lock()
			calls[m.ID] = append(calls[m.ID], given)
			mu.Unlock()
			if !ok {
				if m.ID == "permanent" {
					return waybill.PermanentError(waybill.ReasonRejected, errors.New("no such card"))
				}
				return errors.New("bank is away")
			}
			if _, err := tx.ExecContext(ctx, "INSERT INTO cancelled VALUES ('"+m.ID+"', '"+given.Err+"')"); err != nil {
				return err
			}
			if given.Reason == waybill.ReasonRejected {
				return errors.New("the first final attempt is lost")
			}
			return nil
		}
		b := membroker.New()
		box := a.store.(contract.Inbox[*sql.Tx])
		c, err := consumer.New(b, consumer.Subscription{Group: "billing", Topics: []string{"orders"}}, box, handler, quickConsumer(consumer.Config{
			Retry:  waybill.RetryPolicy{MaxRetries: 2, BaseDelay: 10 * time.Millisecond},
			GiveUp: func(m *waybill.Message) bool { return m.ID != "other" },
		}))
		if err != nil {
			t.Fatal(err)
		}
		run(t, t.Context(), c.Run)
		for _, id := range []string{"permanent", "exhausted", "other"} {
			publish(t, b, waybill.Message{ID: id, Topic: "orders"}, id)
		}
		letters := a.store.(deadletter.Store)
		eventually(t, "two are processed and one is dead", func() bool {
			var n int
			if err := a.db.QueryRow("SELECT count(*) FROM cancelled").Scan(&n); err != nil {
				t.Fatal(err)
			}
			dead, err := letters.DeadLetters(t.Context(), deadletter.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			return n == 2 && len(dead) == 1 && dead[0].Message.ID == "other"
		})
		mu.Lock()
		defer mu.Unlock()
		exhausted, usual := consumer.GivenUp{Reason: waybill.ReasonExhausted, Err: "bank is away", Attempts: 3}, consumer.GivenUp{}
		for id, want := range map[string][]consumer.GivenUp{
			"other":     {usual},
			"exhausted": {usual, exhausted},
			"permanent": {
				usual,
				{Reason: waybill.ReasonRejected, Err: "no such card", Attempts: 1},
				{Reason: waybill.ReasonExhausted, Err: "no such card", Attempts: 3}, // as stored
			},
		} {
			if got := slices.Compact(calls[id]); !slices.Equal(got, want) {
				t.Errorf("%s was handled as %+v, want %+v", id, got, want)
			}
			states, err := a.store.(inspect.Inbox).InboxStates(t.Context(), id, "billing")
			if err != nil || len(states) != 1 || (states[0].ProcessedAt == nil) != (id == "other") || states[0].Attempts != 0 {
				t.Errorf("inbox of %s = %+v, %v; want one record and no attempts", id, states, err)
			}
		}
	})
}
