package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/observe"
)

// TestOtherPayload (AS-35) sends a second message under an id that was processed, with another
// payload, to a consumer of each policy. The first one's effect and record stay as they are.
//
//test:sessions
//test:pooled
func TestOtherPayload(t *testing.T) {
	otherPayload(t, func(t *testing.T, w *world, s source, name string, cfg consumer.Config) func() {
		_, stop := w.startConsumer(t, s, w.effectHandler(name), cfg)
		return stop
	})
}

// TestOtherPayloadLeased (AS-35) does it under leases.
//
//test:sessions
//test:pooled
func TestOtherPayloadLeased(t *testing.T) {
	otherPayload(t, func(t *testing.T, w *world, s source, name string, cfg consumer.Config) func() {
		return w.startLeased(t, s, w.store, w.leasedEffect(name), consumer.Leases{}, cfg)
	})
}

// otherPayload is the story; start runs a consumer of a name.
func otherPayload(t *testing.T, start func(t *testing.T, w *world, s source, name string, cfg consumer.Config) (stop func())) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		policies := map[string]struct {
			policy   consumer.ConflictPolicy
			seen     int // how often the conflict is met
			reason   waybill.Reason
			attempts int
		}{
			"skip":  {policy: consumer.ConflictSkip, seen: 1},
			"bury":  {policy: consumer.ConflictBury, seen: 1, reason: waybill.ReasonConflict, attempts: 1},
			"retry": {policy: consumer.ConflictRetry, seen: 3, reason: waybill.ReasonExhausted, attempts: 3},
		}
		conn, ops, stops := b.connect(t), map[string]*opCounter{}, []func(){}
		for name, p := range policies {
			ops[name] = newOpCounter()
			stops = append(stops, start(t, w, b.subscribe(t, conn, name, "orders"), name, consumer.Config{
				OnConflict: p.policy, Observer: ops[name], Retry: waybill.RetryPolicy{MaxRetries: 2, BaseDelay: 20 * time.Millisecond},
			}))
		}
		publish(t, conn, waybill.Message{ID: "m", Topic: "orders", Payload: []byte("one")}, "1")
		for name := range policies {
			w.waitEffects(t, name, "m", 1)
		}
		publish(t, conn, waybill.Message{ID: "m", Topic: "orders", Payload: []byte("two")}, "2")
		publish(t, conn, waybill.Message{ID: "last", Topic: "orders"}, "3")
		letters := map[string]deadletter.Letter{}
		for _, l := range w.waitLetters(t, deadletter.Filter{}, 2) {
			shown, err := w.store.DeadLetter(t.Context(), l.Number)
			if err != nil {
				t.Fatal(err)
			}
			letters[l.Consumer] = shown
		}
		for name, p := range policies {
			w.waitEffects(t, name, "last", 1)
			eventually(t, name+" counts the conflict", func() bool { return ops[name].count(observe.OpConflict) == p.seen })
			if l := letters[b.group(name)]; l.Reason != p.reason || l.Attempts != p.attempts || (p.reason != "" && string(l.Message.Payload) != "two") {
				t.Errorf("%s: letter = %+v, want %q after %d attempts", name, l, p.reason, p.attempts)
			}
			if n := w.effects(t, name, "m"); n != 1 {
				t.Errorf("%s: %d effects, want the first message's only", name, n)
			}
		}
		for _, stop := range stops {
			stop()
		}
		for name := range policies {
			eventually(t, name+" has acknowledged everything", func() bool { return b.unsettled(t, name) == 0 })
		}
		if n := w.number(t, "SELECT count(*) FROM "+w.table("inbox")+" WHERE dead"); n != 0 {
			t.Errorf("%d records say that the message is dead, want none", n)
		}
	})
}

// TestBatchesConflict: a conflict within a batch counts once, and waits for its retry; the rest
// of the batch is handled.
func TestBatchesConflict(t *testing.T) {
	t.Parallel()
	w, s, ops := plainWorld(t), scriptOf(1, "x", "a", "b", "c"), newOpCounter()
	other := s.list[1].Clone()
	other.Payload = []byte("another")
	if _, err := inbox.Process(t.Context(), w.store, "billing", &other, func(context.Context, pgx.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	effect := w.effectHandler("billing")
	from := toBilling(s)
	c, err := consumer.New(from, from.of, w.store, func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
		if m.ID == "x0" {
			<-time.After(100 * time.Millisecond) // the others are received meanwhile, and make a batch
		}
		return effect(ctx, tx, m)
	}, quickConsumer(consumer.Config{
		BatchSize: 10, Concurrency: 1, OnConflict: consumer.ConflictRetry, Observer: ops, AllowShortRetention: true,
		Retry: waybill.RetryPolicy{MaxRetries: 1, BaseDelay: time.Hour, MaxDelay: time.Hour},
	}))
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, t.Context(), c.Run)
	for _, id := range []string{"x0", "b0", "c0"} {
		w.waitEffects(t, "billing", id, 1)
	}
	eventually(t, "the conflict is to be tried again", func() bool { return ops.count(observe.OpRetry) > 0 })
	stop()
	if n := ops.count(observe.OpConflict); n != 1 || s.acks("a0") != 0 {
		t.Errorf("the conflict was met %d times and acknowledged %d times, want once and not", n, s.acks("a0"))
	}
	w.waitLetters(t, deadletter.Filter{}, 0)
}
