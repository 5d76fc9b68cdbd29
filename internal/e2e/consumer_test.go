package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/relay"
)

// effectHandler writes one effect per message.
func (w *world) effectHandler(name string) consumer.Handler[pgx.Tx] {
	return func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
		return w.addEffect(ctx, tx, name, m.ID)
	}
}

// publish sends a message to a broker as it is, without an outbox.
func publish(t *testing.T, b broker, m waybill.Message, dedupID string) {
	t.Helper()
	m.Complete()
	if m.Source == "" {
		m.Source = "shop"
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, err := range b.Publisher().Send(ctx, []contract.Outgoing{{Message: &m, DedupID: dedupID}})() {
		if err != nil {
			t.Fatalf("publish %s: %v", m.ID, err)
		}
	}
}

func (w *world) waitEffects(t *testing.T, consumer, id string, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s has %d effects of %s", consumer, n, id), func() bool { return w.effects(t, consumer, id) == n })
}

// opCounter counts what a part reports.
type opCounter struct {
	observe.Observer
	mu  sync.Mutex
	ops map[observe.Op]int
}

func newOpCounter() *opCounter { return &opCounter{Observer: quiet, ops: map[observe.Op]int{}} }

func (c *opCounter) Observe(_ context.Context, e observe.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ops[e.Op] += max(e.Count, 1)
}

func (c *opCounter) count(op observe.Op) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ops[op]
}

// TestBytesArriveAsTheyWere (AS-05): a payload reaches the broker byte for byte.
//
//test:sessions
//test:pooled
func TestBytesArriveAsTheyWere(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		payloads := map[string][]byte{
			"empty":     {},
			"big ints":  []byte(`{"z":123456789012345678901234567890,"a":1.10,"a":1e400}`),
			"escapes":   []byte(`{"s":"\n\u00e9\\","t":"\ud83d\ude00"}`),
			"utf-8":     []byte("größe ✓ \u0000"),
			"not utf-8": {0xff, 0xfe, 0, 1},
			"large":     bytes.Repeat([]byte{0, 1, 2, '\\', '"', 0x7f, 0xff}, 100_000),
		}
		conn := b.connect(t)
		sub := b.subscribe(t, conn, "audit", "orders")
		var mu sync.Mutex
		got := map[string]waybill.Message{}
		w.startConsumer(t, sub, func(_ context.Context, _ pgx.Tx, m *waybill.Message) error {
			mu.Lock()
			defer mu.Unlock()
			got[m.ID] = m.Clone()
			return nil
		}, consumer.Config{})
		at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.FixedZone("", 3600))
		for id, payload := range payloads {
			w.enqueue(t, waybill.Message{
				ID: id, Topic: "orders", Type: "order.placed@v2", Key: "kö/ä", Subject: "s ü", Tenant: "acme", Payload: payload, ContentType: "application/x-test",
				DataSchema: "https://example.com/s", Headers: map[string]string{"x-a": "ü %20 ,;=", "b": ""}, CorrelationID: "c", CausationID: "d",
				IdempotencyKey: "i" + id, TraceParent: "00-1", TraceState: "a=b", Time: at, ExpiresAt: at.AddDate(10, 0, 0),
			})
		}
		w.startRelay(t, conn.Publisher(), relay.Config{})
		eventually(t, "all have arrived", func() bool { mu.Lock(); defer mu.Unlock(); return len(got) == len(payloads) })
		for id, payload := range payloads {
			m := got[id]
			if !bytes.Equal(m.Payload, payload) {
				t.Errorf("%s: payload changed on the way", id)
			}
			if m.Type != "order.placed@v2" || m.Key != "kö/ä" || m.Subject != "s ü" || m.Tenant != "acme" || m.Source != "shop" || m.ContentType != "application/x-test" ||
				m.DataSchema != "https://example.com/s" || m.CorrelationID != "c" || m.CausationID != "d" || m.IdempotencyKey != "i"+id ||
				m.TraceParent != "00-1" || m.TraceState != "a=b" || !m.Time.Equal(at) || !m.ExpiresAt.Equal(at.AddDate(10, 0, 0)) ||
				!maps.Equal(m.Headers, map[string]string{"x-a": "ü %20 ,;=", "b": ""}) {
				t.Errorf("%s arrived as %+v", id, m)
			}
		}
	})
}

// TestDelaysAreKeptAndPersisted (AS-22): delays double up to their cap, and outlive restarts.
func TestDelaysAreKeptAndPersisted(t *testing.T) {
	t.Parallel()
	const base = 100 * time.Millisecond // 1 s in the scenario, scaled 1:10
	w, b := plainWorld(t), newBroker(t, "nats")
	conn := b.connect(t)
	sub := b.subscribe(t, conn, "billing", "orders")
	var mu sync.Mutex
	var at []time.Time
	handler := func(context.Context, pgx.Tx, *waybill.Message) error {
		mu.Lock()
		defer mu.Unlock()
		at = append(at, time.Now())
		return errors.New("still broken")
	}
	attempts := func() int { mu.Lock(); defer mu.Unlock(); return len(at) }
	told := &delayRecorder{}
	cfg := consumer.Config{Observer: told, Retry: waybill.RetryPolicy{BaseDelay: base, MaxDelay: 8 * base, DisableJitter: true}}
	_, stop := w.startConsumer(t, sub, handler, cfg)
	publish(t, conn, waybill.Message{ID: "m", Topic: "orders"}, "m")
	eventually(t, "three attempts are made", func() bool { return attempts() == 3 })
	stop() // in the middle: nothing is reset, nothing skipped
	_, stop = w.startConsumer(t, b.subscribe(t, b.connect(t), "billing", "orders"), handler, cfg)
	letters := w.waitLetters(t, deadletter.Filter{}, 1)
	stop()
	if letters[0].Attempts != 6 || attempts() != 6 {
		t.Errorf("%d attempts counted and %d made, want 6", letters[0].Attempts, attempts())
	}
	want := []time.Duration{base, 2 * base, 4 * base, 8 * base, 8 * base} // the last is capped
	if !slices.Equal(told.seen, want) {
		t.Errorf("the delays were to be %v, want %v", told.seen, want)
	}
	for i := range want {
		if got := at[i+1].Sub(at[i]); got < want[i]-5*time.Millisecond {
			t.Errorf("delay %d was %v, want at least %v", i+1, got, want[i])
		}
	}
}

// TestDeliveredTwice (AS-29): the second delivery of a message runs no handler.
//
//test:sessions
//test:pooled
func TestDeliveredTwice(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		conn, ops := b.connect(t), newOpCounter()
		_, stop := w.startConsumer(t, b.subscribe(t, conn, "billing", "orders"), w.effectHandler("billing"), consumer.Config{Observer: ops})
		m := waybill.Message{ID: "m", Topic: "orders"}
		publish(t, conn, m, "m")
		w.waitEffects(t, "billing", "m", 1)
		publish(t, conn, m, "m#again")
		eventually(t, "the second is skipped", func() bool { return ops.count(observe.OpDuplicate) == 1 })
		stop()
		eventually(t, "both are acknowledged", func() bool { return b.unsettled(t, "billing") == 0 })
		if n := w.effects(t, "billing", "m"); n != 1 {
			t.Errorf("%d effects, want 1", n)
		}
	})
}

// TestFiftyAtOnce (AS-30): fifty copies at once have one effect.
//
//test:sessions
//test:pooled
func TestFiftyAtOnce(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		m := waybill.Message{ID: "m", Topic: "orders", Type: "orders", Source: "shop"}
		var processed, duplicates atomic.Int64
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				ran, err := inbox.Process(t.Context(), w.store, "billing", &m, func(ctx context.Context, tx pgx.Tx) error {
					return w.addEffect(ctx, tx, "billing", m.ID)
				})
				switch {
				case err != nil:
					t.Errorf("Process() = %v, want processed or duplicate", err)
				case ran:
					processed.Add(1)
				default:
					duplicates.Add(1)
				}
			})
		}
		all.Wait()
		if processed.Load() != 1 || duplicates.Load() != 49 || w.effects(t, "billing", "m") != 1 {
			t.Errorf("%d processed, %d duplicates, %d effects; want 1, 49, 1", processed.Load(), duplicates.Load(), w.effects(t, "billing", "m"))
		}
	})
}

// TestErrorsAndPanicsRollBack (AS-31): an error or a panic of a handler rolls everything back, and the message comes
// again.
//
//test:sessions
//test:pooled
func TestErrorsAndPanicsRollBack(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		conn := b.connect(t)
		var tries sync.Map
		var leftovers atomic.Int64
		w.startConsumer(t, b.subscribe(t, conn, "billing", "orders"), func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
			if err := w.addEffect(ctx, tx, "billing", m.ID); err != nil {
				return err
			}
			n, _ := tries.LoadOrStore(m.ID, new(atomic.Int64))
			if n.(*atomic.Int64).Add(1) > 1 {
				leftovers.Add(int64(w.effects(t, "billing", m.ID)))
				leftovers.Add(int64(w.number(t, "SELECT count(*) FROM "+w.table("inbox")+" WHERE message_id = $1", m.ID)))
				return nil
			}
			if m.ID == "panics" {
				panic("boom")
			}
			return errors.New("first try")
		}, consumer.Config{})
		for _, id := range []string{"fails", "panics"} {
			publish(t, conn, waybill.Message{ID: id, Topic: "orders"}, id)
		}
		w.waitEffects(t, "billing", "fails", 1)
		w.waitEffects(t, "billing", "panics", 1)
		if n := leftovers.Load(); n != 0 {
			t.Errorf("%d rows of failed attempts were left, want none", n)
		}
	})
}

// TestTwoConsumersTwoTenants (AS-34): two consumers handle a message once each; tenants with the same id do not see
// each other.
//
//test:sessions
//test:pooled
func TestTwoConsumersTwoTenants(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		conn, ops := b.connect(t), newOpCounter()
		for _, name := range []string{"billing", "shipping"} {
			w.startConsumer(t, b.subscribe(t, conn, name, "orders"), w.effectHandler(name), consumer.Config{Observer: ops})
		}
		for i, tenant := range []string{"a", "b", "a", "b"} {
			publish(t, conn, waybill.Message{ID: "m", Topic: "orders", Tenant: tenant}, fmt.Sprint(i))
		}
		for _, name := range []string{"billing", "shipping"} {
			w.waitEffects(t, name, "m", 2) // one per tenant
		}
		eventually(t, "the repeated ones are skipped", func() bool { return ops.count(observe.OpDuplicate) == 4 })
		if n := w.number(t, "SELECT count(DISTINCT (tenant, consumer)) FROM "+w.table("inbox")); n != 4 {
			t.Errorf("%d inbox records, want one per tenant and consumer", n)
		}
	})
}

// TestSameIDFromTwoSourcesAndOneKeyOnTwoTypes: what is not the same message is handled.
//
//test:sessions
func TestSameIDFromTwoSourcesAndOneKeyOnTwoTypes(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		conn := b.connect(t)
		w.startConsumer(t, b.subscribe(t, conn, "billing", "orders"), w.effectHandler("billing"), consumer.Config{})
		publish(t, conn, waybill.Message{ID: "order-17", Source: "shop", Topic: "orders"}, "1")
		publish(t, conn, waybill.Message{ID: "order-17", Source: "app", Topic: "orders"}, "2")
		w.waitEffects(t, "billing", "order-17", 2)
		publish(t, conn, waybill.Message{ID: "x", Type: "placed", IdempotencyKey: "k", Topic: "orders"}, "3")
		publish(t, conn, waybill.Message{ID: "y", Type: "paid", IdempotencyKey: "k", Topic: "orders"}, "4")
		w.waitEffects(t, "billing", "x", 1)
		w.waitEffects(t, "billing", "y", 1)
	})
}

// TestOutgoingMessagesCommitWithTheHandler (AS-36): what a handler enqueues commits with its effect, once.
//
//test:sessions
//test:pooled
func TestOutgoingMessagesCommitWithTheHandler(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		conn, ops := b.connect(t), newOpCounter()
		var tries atomic.Int64
		w.startConsumer(t, b.subscribe(t, conn, "billing", "orders"), func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
			if _, err := w.writer.Enqueue(ctx, tx, waybill.Message{ID: fmt.Sprintf("invoice-%d", tries.Add(1)), Topic: "invoices"}); err != nil {
				return err
			}
			if tries.Load() == 1 {
				return errors.New("after the enqueue")
			}
			return nil
		}, consumer.Config{Observer: ops})
		m := waybill.Message{ID: "m", Topic: "orders", CorrelationID: "flow", Tenant: "acme"}
		publish(t, conn, m, "1")
		w.waitStatus(t, "invoice-2", inspect.Pending)
		publish(t, conn, m, "2")
		eventually(t, "the duplicate is skipped", func() bool { return ops.count(observe.OpDuplicate) == 1 })
		w.everyIDOnce(t, 1)
		if s := w.state(t, "invoice-2"); s.Tenant != "acme" {
			t.Errorf("the outgoing message has the tenant %q, want that of its cause", s.Tenant)
		}
		if n := w.number(t, "SELECT count(*) FROM "+w.table("outbox")+" WHERE correlation_id = 'flow' AND causation_id = 'm'"); n != 1 {
			t.Error("the outgoing message does not name its cause")
		}
	})
}

// TestInboxIsolation runs the gate and a clash of handlers in each kind of session.
func TestInboxIsolation(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		b := membroker.New()
		sub := from(b, consumer.Subscription{Group: "billing", Topics: []string{"orders"}})
		w.exec(t, "INSERT INTO "+w.table("orders")+" VALUES ('counter')")
		w.startConsumer(t, sub, func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
			if _, err := tx.Exec(ctx, "UPDATE "+w.table("orders")+" SET id = id WHERE id = 'counter'"); err != nil {
				return err
			}
			return w.addEffect(ctx, tx, "billing", m.ID)
		}, consumer.Config{Concurrency: 8})
		for i := range 100 {
			publish(t, b, waybill.Message{ID: fmt.Sprintf("m%d", i%50), Topic: "orders"}, "")
		}
		eventually(t, "every message has its effect", func() bool {
			return w.number(t, "SELECT count(DISTINCT message_id) FROM "+w.table("effects")) == 50
		})
		if n := w.number(t, "SELECT count(*) FROM "+w.table("effects")); n != 50 {
			t.Errorf("%d effects of 50 messages delivered twice, want 50", n)
		}
	})
}
