package consumer

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/observe"
)

func succeed(context.Context, int, *waybill.Message) error { return nil }

// TestStore_GoesSilent: a consumer whose store does not answer gives its deliveries back, says so,
// and goes on when the store does. No attempt is counted.
func TestStore_GoesSilent(t *testing.T) {
	t.Parallel()
	always := func(string) bool { return true }
	for name, tc := range map[string]struct {
		handler Handler[int]
		silent  func(call string) bool
	}{
		"begin":  {succeed, always},
		"commit": {succeed, func(call string) bool { return call != "begin" }},
		"attempts": {func(context.Context, int, *waybill.Message) error { return errors.New("no stock") },
			func(call string) bool { return call != "begin" }},
		"dead letter": {func(context.Context, int, *waybill.Message) error {
			return waybill.PermanentError(waybill.ReasonRejected, errors.New("never"))
		}, func(call string) bool { return call != "begin" }},
	} {
		for _, order := range []Order{Unordered, OrderByKey} {
			t.Run(name+map[Order]string{Unordered: "", OrderByKey: " in order"}[order], func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					const n = 32
					box, sub := newBox(), newQueue(orders("m", "", n)...)
					box.beSilent(tc.silent)
					c := newConsumer(t, sub, box, tc.handler, Config{Order: order, Prefetch: n, HandlerTimeout: time.Second, PauseAfter: -1})
					stop := run(t, c)
					time.Sleep(time.Minute)
					if acked, unsettled := sub.settled(); len(acked) != 0 || unsettled != 0 {
						t.Errorf("while the store is silent %d are acknowledged and %d unsettled, want 0 and 0", len(acked), unsettled)
					}
					if c.Health() == nil {
						t.Error("Health() = nil while the store is silent")
					}
					extended := sub.extended
					time.Sleep(time.Minute)
					if sub.extended != extended {
						t.Errorf("%d deliveries were extended while the store is silent, want none", sub.extended-extended)
					}
					box.beSilent(nil)
					time.Sleep(10 * time.Minute)
					if acked, _ := sub.settled(); len(acked) != n {
						t.Errorf("%d of %d are acknowledged after the store is back", len(acked), n)
					}
					if err := c.Health(); err != nil {
						t.Errorf("Health() = %v after the store is back", err)
					}
					for _, l := range box.letters {
						if want := 1 + c.cfg.Retry.MaxRetries; l.Reason == waybill.ReasonExhausted && l.Attempts != want {
							t.Errorf("a letter after %d attempts, want %d", l.Attempts, want)
						}
					}
					if err := stop(); err != nil {
						t.Errorf("Run() = %v", err)
					}
				})
			})
		}
	}
}

// TestStore_WaitsForAConnection: a call that waits because handlers use all connections says
// nothing of the store.
func TestStore_WaitsForAConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		box, sub, seen := newBox(), newQueue(orders("first", "", 1)...), &noted{}
		var running atomic.Bool // on the only connection
		box.beSilent(func(call string) bool { return running.Load() && call != "commit" && call != "take" })
		handler := func(context.Context, int, *waybill.Message) error {
			running.Store(true)
			time.Sleep(25 * time.Second)
			running.Store(false)
			return nil
		}
		c := newConsumer(t, sub, box, handler, Config{Observer: seen, Concurrency: 2})
		stop := run(t, c)
		synctest.Wait()
		sub.publish(orders("next", "", 2)...)
		time.Sleep(10 * time.Minute)
		if acked, _ := sub.settled(); len(acked) != 3 {
			t.Errorf("acknowledged %v, want all three", acked)
		}
		for _, e := range seen.events {
			if e.Op == observe.OpLoop {
				t.Errorf("the consumer paused: %v", e.Err)
			}
		}
		_ = stop()
	})
}

// TestBreak_DependencyDown: a handler that only fails burns the attempts of few messages.
func TestBreak_DependencyDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 500
		box, sub := newBox(), newQueue(orders("m", "", n)...)
		var down atomic.Bool
		down.Store(true)
		handler := func(context.Context, int, *waybill.Message) error {
			if down.Load() {
				return errors.New("the price service answers 503")
			}
			return nil
		}
		c := newConsumer(t, sub, box, handler, Config{Concurrency: 1, Prefetch: 20, Retry: waybill.RetryPolicy{MaxRetries: waybill.NoRetries}})
		stop := run(t, c)
		time.Sleep(3 * time.Minute)
		if dead := box.dead(); dead < 10 || dead > 20 {
			t.Errorf("%d of %d are dead after three minutes, want 10 to 20", dead, n)
		}
		if c.Health() == nil {
			t.Error("Health() = nil while the consumer pauses")
		}
		down.Store(false)
		time.Sleep(2 * time.Minute)
		if acked, _ := sub.settled(); len(acked) != n || box.dead() > 20 {
			t.Errorf("%d of %d are acknowledged, %d dead, want all and 20 at most", len(acked), n, box.dead())
		}
		if err := c.Health(); err != nil {
			t.Errorf("Health() = %v when the handler succeeds again", err)
		}
		_ = stop()
	})
}

// TestBreak_Not: what is no sign of a dependency that is down pauses nobody.
func TestBreak_Not(t *testing.T) {
	t.Parallel()
	failed := errors.New("no stock")
	for name, tc := range map[string]struct {
		handler func(n int) error
		cfg     Config
	}{
		"one in ten succeeds": {func(n int) error {
			if n%10 == 0 {
				return nil
			}
			return failed
		}, Config{}},
		"permanent": {func(int) error { return waybill.PermanentError(waybill.ReasonRejected, failed) }, Config{}},
		"disabled":  {func(int) error { return failed }, Config{PauseAfter: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const messages = 100
				box, sub, n := newBox(), newQueue(orders("m", "", messages)...), 0
				cfg := tc.cfg
				cfg.Concurrency, cfg.Retry.MaxRetries = 1, waybill.NoRetries
				c := newConsumer(t, sub, box, func(context.Context, int, *waybill.Message) error { n++; return tc.handler(n) }, cfg)
				stop := run(t, c)
				time.Sleep(time.Second / 2)
				if acked, _ := sub.settled(); len(acked) != messages {
					t.Errorf("%d of %d are done with, want all", len(acked), messages)
				}
				_ = stop()
			})
		})
	}
}

// TestOrderByKey_HeldUp: the followers of a message that fails leave room for other keys, and keep
// their order.
func TestOrderByKey_HeldUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const followers = 1000
		box := newBox()
		sub := newQueue(append(orders("held", "k", 1+followers), orders("other", "", 10)...)...)
		var held atomic.Bool
		held.Store(true)
		handler := func(_ context.Context, _ int, m *waybill.Message) error {
			if held.Load() && m.Key == "k" {
				return waybill.UnavailableError(errors.New("not now"))
			}
			return nil
		}
		c := newConsumer(t, sub, box, handler, Config{Order: OrderByKey, Concurrency: 4, Prefetch: 32})
		stop := run(t, c)
		time.Sleep(10 * time.Second)
		if acked, _ := sub.settled(); len(acked) != 10 {
			t.Errorf("%d messages of other keys are done with while one is held up, want 10", len(acked))
		}
		held.Store(false)
		time.Sleep(time.Minute)
		acked, unsettled := sub.settled()
		if len(acked) != 10+1+followers || unsettled != 0 {
			t.Fatalf("%d are done with, %d unsettled, want %d and 0", len(acked), unsettled, 10+1+followers)
		}
		for i, m := range orders("held", "k", 1+followers) {
			if acked[10+i] != m.ID {
				t.Fatalf("message %d of the key is %s, want %s", i, acked[10+i], m.ID)
			}
		}
		if sub.prefetch != 32 {
			t.Errorf("the subscription holds %d in the end, want 32 as at first", sub.prefetch)
		}
		_ = stop()
	})
}

// TestRun_HandlerIgnoresItsContext: Run does not outlive ShutdownGrace.
func TestRun_HandlerIgnoresItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		box, sub := newBox(), newQueue(orders("m", "", 3)...)
		release := make(chan struct{})
		handler := func(context.Context, int, *waybill.Message) error { <-release; return nil }
		c := newConsumer(t, sub, box, handler, Config{Concurrency: 1, ShutdownGrace: 10 * time.Second})
		stop := run(t, c)
		synctest.Wait()
		began := time.Now()
		err := stop()
		if took := time.Since(began); err == nil || took > 10*time.Second {
			t.Errorf("Run() = %v after %v, want an error within ShutdownGrace, 10s", err, took)
		}
		if err := c.Run(t.Context()); err == nil {
			t.Error("Run() = nil while a handler is left, want an error")
		}
		close(release)
		synctest.Wait()
		if acked, _ := sub.settled(); len(acked) != 0 {
			t.Errorf("acknowledged %v after Run, want nothing: its transaction has ended", acked)
		}
	})
}

// TestRun_EndsContextsBefore: a handler that heeds its context ends within ShutdownGrace, too.
func TestRun_EndsContextsBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		box, sub := newBox(), newQueue(orders("m", "", 1)...)
		handler := func(ctx context.Context, _ int, _ *waybill.Message) error { <-ctx.Done(); return ctx.Err() }
		c := newConsumer(t, sub, box, handler, Config{HandlerTimeout: time.Hour, ShutdownGrace: 10 * time.Second})
		stop := run(t, c)
		synctest.Wait()
		began := time.Now()
		err := stop()
		if took := time.Since(began); err != nil || took >= 10*time.Second {
			t.Errorf("Run() = %v after %v, want nil within ShutdownGrace, 10s", err, took)
		}
	})
}

// TestRun_GivesBack: what was received and not begun is delivered again at once.
func TestRun_GivesBack(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{"unordered": {}, "in order": {Order: OrderByKey}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				box, sub := newBox(), newQueue(orders("m", "", 16)...)
				release := make(chan struct{})
				handler := func(context.Context, int, *waybill.Message) error { <-release; return nil }
				cfg.Concurrency, cfg.Prefetch = 1, 16
				c := newConsumer(t, sub, box, handler, cfg)
				stop := run(t, c)
				synctest.Wait()
				stopped := make(chan error)
				go func() { stopped <- stop() }()
				synctest.Wait()
				if _, unsettled := sub.settled(); unsettled != 1 {
					t.Errorf("%d are unsettled while Run waits for a handler, want its own", unsettled)
				}
				close(release)
				if err := <-stopped; err != nil {
					t.Errorf("Run() = %v", err)
				}
				if acked, unsettled := sub.settled(); len(acked) != 1 || unsettled != 0 {
					t.Errorf("%d acknowledged, %d unsettled, want 1 and 0", len(acked), unsettled)
				}
			})
		})
	}
}

// TestGate_Held: copies of messages whose inbox rows somebody has locked for good, as a replica does
// whose host has vanished, hold up the others for a while only, and no attempt is counted.
func TestGate_Held(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const held, others = 32, 50
		box := newBox()
		sub := newQueue(append(orders("held", "", held), orders("other", "", others)...)...)
		box.beHeld(func(id string) bool { return strings.HasPrefix(id, "held") })
		c := newConsumer(t, sub, box, succeed, Config{Concurrency: 4, Retry: waybill.RetryPolicy{MaxRetries: waybill.NoRetries}})
		stop := run(t, c)
		time.Sleep(2 * time.Minute)
		if acked, _ := sub.settled(); len(acked) != others {
			t.Errorf("%d others are acknowledged while %d are held, want %d", len(acked), held, others)
		}
		if err := c.Health(); err != nil {
			t.Errorf("Health() = %v, want nil: the store answers", err)
		}
		box.beHeld(nil)
		time.Sleep(2 * time.Minute)
		if acked, _ := sub.settled(); len(acked) != held+others || box.dead() != 0 {
			t.Errorf("%d are acknowledged, %d dead, want %d and 0", len(acked), box.dead(), held+others)
		}
		_ = stop()
	})
}
