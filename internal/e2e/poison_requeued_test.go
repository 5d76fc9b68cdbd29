package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/store/pgstore"
)

// rerun runs requeued letters, one of which ends the process. Nothing comes from the broker.
func (c child) rerun(ctx context.Context, store *pgstore.Store[pgx.Tx]) error {
	w := &world{schema: c.Schema}
	sub := consumer.Subscription{Group: "billing", Topics: []string{"orders"}}
	cons, err := consumer.New(membroker.New(), sub, store, func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
		fmt.Println("begins", m.ID)
		if err := w.addEffect(ctx, tx, "billing", m.ID); err != nil {
			return err
		}
		if m.ID == c.Poison {
			endProcess(c.Node)
		}
		return nil
	}, quickConsumer(consumer.Config{Observer: announcer{}}))
	if err != nil {
		return err
	}
	return cons.Run(ctx)
}

// TestRequeuedPoison (AS-26) requeues two letters, the first of which ends every process that runs
// it: after three it is a dead letter again. The other one has its effect once.
//
//test:sessions
//test:pooled
func TestRequeuedPoison(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	w.buried(t, waybill.Message{ID: "m1", Topic: "orders", Source: "shop"}, waybill.Message{ID: "m2", Topic: "orders", Source: "shop"})
	for _, id := range []string{"m1", "m2"} {
		w.requeueLetter(t, id)
	}
	begun, done := 0, false
	for life := 0; !done; life++ {
		if life == 4 {
			t.Fatal("the letter is still not dead after four processes")
		}
		p := w.startChild(t, child{Role: "rerunner", Poison: "m1", Node: "exit"})
		eventually(t, "the process ends, or everything is done", func() bool {
			done = w.number(t, "SELECT count(*) FROM "+w.table("effects")) > 0 &&
				w.number(t, "SELECT count(*) FROM "+w.table("dead_letters")+" WHERE requeued_at IS NULL") > 0
			select {
			case <-p.ended:
				return true
			default:
				return done
			}
		})
		p.kill()
		begun += len(slices.DeleteFunc(p.said(), func(line string) bool { return line != "begins m1" }))
		w.moveClock(t, time.Duration(life+1)*time.Hour) // the lease ends
	}
	l := w.waitLetters(t, deadletter.Filter{}, 1)[0]
	if l.Message.ID != "m1" || l.Requeued || l.Reason != waybill.ReasonPoison || begun != 3 {
		t.Errorf("letter = %+v after %d starts, want m1 as poison after three", l, begun)
	}
	for id, want := range map[string]int{"m1": 0, "m2": 1} {
		if n := w.effects(t, "billing", id); n != want {
			t.Errorf("%d effects of %s, want %d", n, id, want)
		}
	}
	if n := w.number(t, "SELECT count(*) FROM "+w.table("consumer_attempts")); n != 0 {
		t.Errorf("%d notes of starts are left, want none", n)
	}
}
