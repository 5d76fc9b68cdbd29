package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/observe"
)

// TestHandlerThatEndsItsSession: as long as the database is there, what a handler does to its own
// session is the failure of its message.
//
//test:sessions
func TestHandlerThatEndsItsSession(t *testing.T) {
	t.Parallel()
	kill := func(w *world, ctx context.Context, tx pgx.Tx) error {
		if _, err := w.pool.Exec(ctx, "SELECT pg_terminate_backend($1)", tx.Conn().PgConn().PID()); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "SELECT 1")
		return err
	}
	tooLong := func(w *world, ctx context.Context, tx pgx.Tx) error {
		const statement = "SELECT pg_sleep(3600)"
		own, cancel := context.WithCancel(ctx)
		defer cancel()
		pid := tx.Conn().PgConn().PID()
		go func() { // its time is up as soon as it runs
			for running := false; !running && own.Err() == nil; {
				row := w.pool.QueryRow(own, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND state = 'active' AND query = $2)", pid, statement)
				_ = row.Scan(&running)
			}
			cancel()
		}()
		_, err := tx.Exec(own, statement)
		return err
	}
	for name, tc := range map[string]struct {
		handle   func(w *world, ctx context.Context, tx pgx.Tx) error
		reason   waybill.Reason
		attempts int
	}{
		"a statement's own timeout": {func(w *world, ctx context.Context, tx pgx.Tx) error {
			return fmt.Errorf("no stock: %v", tooLong(w, ctx, tx))
		}, waybill.ReasonExhausted, 2},
		"a statement's own timeout, permanent": {func(w *world, ctx context.Context, tx pgx.Tx) error {
			return waybill.PermanentError(waybill.ReasonRejected, fmt.Errorf("no stock: %v", tooLong(w, ctx, tx)))
		}, waybill.ReasonRejected, 1},
		"a statement's own timeout, ignored": {func(w *world, ctx context.Context, tx pgx.Tx) error {
			_ = tooLong(w, ctx, tx)
			return nil
		}, waybill.ReasonExhausted, 2},
		"killed": {func(w *world, ctx context.Context, tx pgx.Tx) error {
			return fmt.Errorf("no stock: %v", kill(w, ctx, tx))
		}, waybill.ReasonExhausted, 2},
		"killed, with the server's error": {kill, waybill.ReasonExhausted, 2},
		"idle for too long": {func(w *world, ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = '1ms'"); err != nil {
				return err
			}
			for alive := true; alive; {
				row := w.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", tx.Conn().PgConn().PID())
				if err := row.Scan(&alive); err != nil {
					return err
				}
			}
			return nil
		}, waybill.ReasonExhausted, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, b := plainWorld(t), membroker.New()
			sub := from(b, consumer.Subscription{Group: "billing", Topics: []string{"orders"}})
			w.startConsumer(t, sub, func(ctx context.Context, tx pgx.Tx, _ *waybill.Message) error { return tc.handle(w, ctx, tx) },
				consumer.Config{Retry: waybill.RetryPolicy{MaxRetries: 1, BaseDelay: 10 * time.Millisecond}})
			publish(t, b, waybill.Message{ID: "m", Topic: "orders"}, "m")
			if l := w.waitLetters(t, deadletter.Filter{}, 1)[0]; l.Attempts != tc.attempts || l.Reason != tc.reason {
				t.Errorf("dead letter = %+v, want reason %s after %d attempts", l, tc.reason, tc.attempts)
			}
		})
	}
}

// TestOutageInAHandlerDoesNotCount: the database goes away while a handler runs.
//
//test:sessions
func TestOutageInAHandlerDoesNotCount(t *testing.T) {
	t.Parallel()
	w, b, ops := plainWorld(t), membroker.New(), newOpCounter()
	proxied, proxy := w.throughProxy(t)
	var runs atomic.Int64
	c, err := consumer.New(b, consumer.Subscription{Group: "billing", Topics: []string{"orders"}}, proxied,
		func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
			if runs.Add(1) > 1 {
				return w.addEffect(ctx, tx, "billing", m.ID)
			}
			proxy.Refuse(true)
			proxy.Cut()
			_, err := tx.Exec(ctx, "SELECT 1")
			return errors.New("business rule: " + fmt.Sprint(err))
		}, consumer.Config{Observer: ops, Retry: waybill.RetryPolicy{MaxRetries: waybill.NoRetries}})
	if err != nil {
		t.Fatal(err)
	}
	run(t, t.Context(), c.Run)
	publish(t, b, waybill.Message{ID: "m", Topic: "orders"}, "m")
	eventually(t, "the consumer waits", func() bool { return ops.count(observe.OpPause) > 0 })
	proxy.Refuse(false)
	w.waitEffects(t, "billing", "m", 1)
	w.waitLetters(t, deadletter.Filter{}, 0)
}
