package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/relay"
)

// TestKilledAfterCommit (AS-02): a producer killed after its commit: the message reaches the broker.
//
//test:sessions
//test:pooled
func TestKilledAfterCommit(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		conn := b.connect(t)
		sub := b.subscribe(t, conn, "audit", "orders")
		writer := w.startChild(t, child{Role: "writer", Halt: atCommitted, IDs: []string{"m"}})
		writer.wait(t, atCommitted)
		writer.kill()
		w.startRelay(t, conn.Publisher(), relay.Config{})
		w.waitStatus(t, "m", inspect.Published)
		if seen := receive(t, sub, 1); seen["m"] < 1 {
			t.Errorf("the broker delivered %v, want m", seen)
		}
	})
}

// TestRelayKilledBetweenConfirmAndSettle (AS-08): a relay killed between confirm and settlement: the message is sent
// again, and has one effect.
//
//test:sessions
//test:pooled
func TestRelayKilledBetweenConfirmAndSettle(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		conn := b.connect(t)
		sub := b.subscribe(t, conn, "billing", "orders")
		ops := newOpCounter()
		w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
		first := w.startChild(t, child{Role: "relay", Broker: b, Halt: atSettle})
		first.wait(t, atSettle)
		first.kill()
		if n := b.stored(t, "billing"); n != 1 {
			t.Fatalf("the broker holds %d messages, want the confirmed one", n)
		}
		if s := w.state(t, "m"); s.Status != inspect.Pending {
			t.Fatalf("message is %s, want Pending", s.Status)
		}
		w.startConsumer(t, sub, w.effectHandler("billing"), consumer.Config{Observer: ops})
		w.waitEffects(t, "billing", "m", 1)
		w.startRelay(t, conn.Publisher(), relay.Config{})
		w.waitStatus(t, "m", inspect.Published)
		eventually(t, "the second copy is skipped", func() bool { return ops.count(observe.OpDuplicate) == 1 })
		if n := w.effects(t, "billing", "m"); n != 1 {
			t.Errorf("%d effects, want 1", n)
		}
	})
}

// TestStoppedRelay (AS-09) is a relay that is stopped past its lease and resumed: its settlement
// changes nothing, neither of what the new owner has settled nor of what it still holds.
//
//test:sessions
//test:pooled
func TestStoppedRelay(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), newBroker(t, "nats")
	w.enqueue(t, waybill.Message{ID: "settled", Topic: "orders"}, waybill.Message{ID: "held back", Topic: "orders"})
	stopped := w.startChild(t, child{Role: "relay", Broker: b, Halt: atSettle})
	stopped.wait(t, atSettle)
	stopped.stop(t)
	owner := &recorder{fail: func(m contract.Outgoing) error {
		if m.ID == "settled" {
			return errors.New("not now")
		}
		return waybill.UnavailableError(errors.New("broker is down"))
	}}
	w.startRelay(t, owner, relay.Config{Retry: waybill.RetryPolicy{BaseDelay: time.Hour, MaxDelay: time.Hour}})
	w.waitStatus(t, "settled", inspect.Waiting) // the new owner's word
	stopped.resume(t)
	stopped.wait(t, string(observe.OpSettle)) // it has come to its settlement
	if s := w.state(t, "settled"); s.Status != inspect.Waiting || s.Attempts != 1 {
		t.Errorf("the settled message is %s with %d attempts, want Waiting with the one of the new owner", s.Status, s.Attempts)
	}
	if s := w.state(t, "held back"); s.Status != inspect.Pending {
		t.Errorf("the other message is %s, want Pending, as the new owner holds it", s.Status)
	}
}

// TestTakeOverFindsBlockedKeys kills the owner of a lane while a message waits for its retry.
//
//test:sessions
func TestTakeOverFindsBlockedKeys(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		if b.Kind == "rabbit" {
			b.declareFullQueue(t, "full", "orders") // refuses A1
			b.declareFullQueue(t, "full2", "stock")
		} else {
			t.Log("NATS refuses nothing here: A1 is made to wait by hand")
		}
		keyed := func(id, topic string) waybill.Message { return waybill.Message{ID: id, Topic: topic, Key: "a"} }
		w.enqueue(t, keyed("a1", "orders"), keyed("b1", "stock"))
		owner := w.startChild(t, child{Role: "relay", Broker: b})
		if b.Kind == "rabbit" {
			w.waitStatus(t, "a1", inspect.Waiting)
			w.waitStatus(t, "b1", inspect.Waiting)
		} else {
			w.waitStatus(t, "a1", inspect.Published)
			w.waitStatus(t, "b1", inspect.Published)
		}
		owner.kill()
		for _, id := range []string{"a1", "b1"} { // far from due, so that A2 has every chance to overtake
			if b.Kind == "nats" {
				w.exec(t, "DELETE FROM "+w.table("outbox_archive")+" WHERE id = $1", id)
				w.enqueue(t, keyed(id, map[string]string{"a1": "orders", "b1": "stock"}[id]))
			}
		}
		failing := &recorder{fail: func(m contract.Outgoing) error {
			if m.ID == "a1" || m.ID == "b1" {
				return errors.New("not now")
			}
			return nil
		}}
		if b.Kind == "nats" {
			_, stop := w.startRelay(t, failing, relay.Config{Retry: waybill.RetryPolicy{BaseDelay: time.Hour, MaxDelay: time.Hour}})
			w.waitStatus(t, "a1", inspect.Waiting)
			w.waitStatus(t, "b1", inspect.Waiting)
			stop()
		}
		w.exec(t, "UPDATE "+w.table("outbox_waiting")+" SET due_at = due_at + interval '1 hour' WHERE due_at IS NOT NULL")
		w.enqueue(t, keyed("a2", "orders"), keyed("b2", "stock"), waybill.Message{ID: "other", Topic: "orders", Key: "c"})
		next := &recorder{}
		w.startRelay(t, next, relay.Config{})
		eventually(t, "the new owner works", func() bool { return next.count("other") == 1 })
		w.waitStatus(t, "a2", inspect.Waiting)
		w.waitStatus(t, "b2", inspect.Waiting)
		if ids := next.ids(); !slices.Equal(ids, []string{"other"}) {
			t.Errorf("the new owner sent %v, want only other", ids)
		}
		w.exec(t, "UPDATE "+w.table("outbox_waiting")+" SET due_at = now() WHERE due_at IS NOT NULL")
		eventually(t, "all are sent", func() bool { return len(next.ids()) == 5 })
		for _, key := range []string{"a", "b"} {
			if slices.Index(next.ids(), key+"1") > slices.Index(next.ids(), key+"2") {
				t.Errorf("sent %v: %s2 overtook %s1", next.ids(), key, key)
			}
		}
	})
}

// TestKilledWhileBurying (AS-24) kills a relay inside the transaction that moves a message to the
// dead letters: another session's lock holds it there.
//
//test:sessions
//test:pooled
func TestKilledWhileBurying(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), newBroker(t, "rabbit")
	lock, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(t.Context(), "LOCK TABLE "+w.table("dead_letters")+" IN EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	w.enqueue(t, waybill.Message{ID: "m", Topic: "nobody listens"})
	first := w.startChild(t, child{Role: "relay", Broker: b})
	eventually(t, "the relay waits for the lock", func() bool {
		return w.number(t, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = $1::regclass", w.table("dead_letters")) > 0
	})
	first.kill()
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.startRelay(t, b.connect(t).Publisher(), relay.Config{})
	w.waitStatus(t, "m", inspect.Dead)
	if l := w.waitLetters(t, deadletter.Filter{}, 1); l[0].Message.ID != "m" {
		t.Errorf("dead letter = %+v, want m", l[0])
	}
	w.everyIDOnce(t, 1)
}

// TestKilledAfterCommitBeforeAck (AS-32): a crash after the commit: the copy is skipped.
//
//test:sessions
//test:pooled
func TestKilledAfterCommitBeforeAck(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		killedConsumer(t, w, b, atBeforeAck, 1)
	})
}

// TestKilledBeforeCommit (AS-33): a crash before the commit: the handler runs again.
//
//test:sessions
//test:pooled
func TestKilledBeforeCommit(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		killedConsumer(t, w, b, atBeforeCommit, 0)
	})
}

// killedConsumer kills a consumer at a point, at which the message has the given number of
// committed effects; in the end it has one.
func killedConsumer(t *testing.T, w *world, b brokerSettings, point string, effects int) {
	conn := b.connect(t)
	sub := b.subscribe(t, conn, "billing", "orders")
	first := w.startChild(t, child{Role: "consumer", Broker: b, Halt: point})
	publish(t, conn, waybill.Message{ID: "m", Topic: "orders"}, "m")
	first.wait(t, point)
	first.kill()
	if n := w.effects(t, "billing", "m"); n != effects {
		t.Fatalf("%d effects at the kill, want %d", n, effects)
	}
	ops := newOpCounter()
	w.startConsumer(t, sub, w.effectHandler("billing"), consumer.Config{Observer: ops})
	var copies int
	var sent time.Time
	redelivered := func(condition func() bool) func() bool {
		return func() bool {
			// JetStream waits 30 s for the acknowledgement, of a copy too if it has given that to
			// the killed consumer, of whose end it may not have heard yet. So copies are sent.
			if b.Kind == "nats" && time.Since(sent) > 500*time.Millisecond {
				copies++
				publish(t, conn, waybill.Message{ID: "m", Topic: "orders"}, fmt.Sprintf("m#copy%d", copies))
				sent = time.Now()
			}
			return condition()
		}
	}
	eventually(t, "the message has its effect", redelivered(func() bool { return w.effects(t, "billing", "m") > 0 }))
	if effects == 1 {
		eventually(t, "the redelivery is skipped", redelivered(func() bool { return ops.count(observe.OpDuplicate) >= 1 }))
	}
	if n := w.effects(t, "billing", "m"); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

// TestKilledBetweenDeadLetterAndAck: the redelivery finds the inbox record that says dead.
//
//test:sessions
func TestKilledBetweenDeadLetterAndAck(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), newBroker(t, "rabbit")
	conn := b.connect(t)
	sub := b.subscribe(t, conn, "billing", "orders")
	first := w.startChild(t, child{Role: "consumer", Broker: b, Halt: atBeforeAck, Fail: true})
	publish(t, conn, waybill.Message{ID: "m", Topic: "orders"}, "m")
	first.wait(t, atBeforeAck)
	first.kill()
	w.waitLetters(t, deadletter.Filter{}, 1)
	ops := newOpCounter()
	_, stop := w.startConsumer(t, sub, func(context.Context, pgx.Tx, *waybill.Message) error {
		return fmt.Errorf("the handler must not run")
	}, consumer.Config{Observer: ops})
	eventually(t, "the redelivery is acknowledged as dead", func() bool { return ops.count(observe.OpDuplicate) == 1 })
	stop()
	w.waitLetters(t, deadletter.Filter{}, 1)
	if n := b.stored(t, "billing"); n != 0 {
		t.Errorf("the broker still holds %d messages, want none", n)
	}
}
