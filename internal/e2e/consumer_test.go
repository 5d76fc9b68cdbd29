package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/outbox"
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
	for _, err := range b.Publisher().Send(ctx, []relay.Outgoing{{Message: &m, DedupID: dedupID}})() {
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
	waybill.Observer
	mu  sync.Mutex
	ops map[waybill.Op]int
}

func newOpCounter() *opCounter { return &opCounter{Observer: quiet, ops: map[waybill.Op]int{}} }

func (c *opCounter) Observe(_ context.Context, e waybill.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ops[e.Op] += max(e.Count, 1)
}

func (c *opCounter) count(op waybill.Op) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ops[op]
}

func TestAS05BytesArriveAsTheyWere(t *testing.T) {
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
		}, consumer.Config{Name: "audit"})
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

func TestAS22DelaysAreKeptAndPersisted(t *testing.T) {
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
	cfg := consumer.Config{Name: "billing", Retry: waybill.RetryPolicy{BaseDelay: base, MaxDelay: 8 * base, DisableJitter: true}}
	_, stop := w.startConsumer(t, sub, handler, cfg)
	publish(t, conn, waybill.Message{ID: "m", Topic: "orders"}, "m")
	eventually(t, "three attempts are made", func() bool { return attempts() == 3 })
	stop() // in the middle: nothing is reset, nothing skipped
	w.startConsumer(t, b.subscribe(t, b.connect(t), "billing", "orders"), handler, cfg)
	letters := w.waitLetters(t, deadletter.Filter{}, 1)
	if letters[0].Attempts != 6 || attempts() != 6 {
		t.Errorf("%d attempts counted and %d made, want 6", letters[0].Attempts, attempts())
	}
	for i, want := range []time.Duration{1, 2, 4, 8, 8} { // the last is capped
		if got := at[i+1].Sub(at[i]); got < want*base-5*time.Millisecond || got > want*base+2*time.Second {
			t.Errorf("delay %d was %v, want %v", i+1, got, want*base)
		}
	}
}

func TestAS29DeliveredTwice(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		conn, ops := b.connect(t), newOpCounter()
		_, stop := w.startConsumer(t, b.subscribe(t, conn, "billing", "orders"), w.effectHandler("billing"), consumer.Config{Name: "billing", Observer: ops})
		m := waybill.Message{ID: "m", Topic: "orders"}
		publish(t, conn, m, "m")
		w.waitEffects(t, "billing", "m", 1)
		publish(t, conn, m, "m#again")
		eventually(t, "the second is skipped", func() bool { return ops.count(waybill.OpDuplicate) == 1 })
		stop()
		eventually(t, "both are acknowledged", func() bool { return b.unsettled(t, "billing") == 0 })
		if n := w.effects(t, "billing", "m"); n != 1 {
			t.Errorf("%d effects, want 1", n)
		}
	})
}

func TestAS30FiftyAtOnce(t *testing.T) {
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

func TestAS31ErrorsAndPanicsRollBack(t *testing.T) {
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
		}, consumer.Config{Name: "billing"})
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

func TestAS34TwoConsumersTwoTenants(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		conn, ops := b.connect(t), newOpCounter()
		for _, name := range []string{"billing", "shipping"} {
			w.startConsumer(t, b.subscribe(t, conn, name, "orders"), w.effectHandler(name), consumer.Config{Name: name, Observer: ops})
		}
		for i, tenant := range []string{"a", "b", "a", "b"} {
			publish(t, conn, waybill.Message{ID: "m", Topic: "orders", Tenant: tenant}, fmt.Sprint(i))
		}
		for _, name := range []string{"billing", "shipping"} {
			w.waitEffects(t, name, "m", 2) // one per tenant
		}
		eventually(t, "the repeated ones are skipped", func() bool { return ops.count(waybill.OpDuplicate) == 4 })
		if n := w.number(t, "SELECT count(DISTINCT (tenant, consumer)) FROM "+w.table("inbox")); n != 4 {
			t.Errorf("%d inbox records, want one per tenant and consumer", n)
		}
	})
}

// TestSameIDFromTwoSourcesAndOneKeyOnTwoTypes: what is not the same message is handled.
func TestSameIDFromTwoSourcesAndOneKeyOnTwoTypes(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		conn := b.connect(t)
		w.startConsumer(t, b.subscribe(t, conn, "billing", "orders"), w.effectHandler("billing"), consumer.Config{Name: "billing"})
		publish(t, conn, waybill.Message{ID: "order-17", Source: "shop", Topic: "orders"}, "1")
		publish(t, conn, waybill.Message{ID: "order-17", Source: "app", Topic: "orders"}, "2")
		w.waitEffects(t, "billing", "order-17", 2)
		publish(t, conn, waybill.Message{ID: "x", Type: "placed", IdempotencyKey: "k", Topic: "orders"}, "3")
		publish(t, conn, waybill.Message{ID: "y", Type: "paid", IdempotencyKey: "k", Topic: "orders"}, "4")
		w.waitEffects(t, "billing", "x", 1)
		w.waitEffects(t, "billing", "y", 1)
	})
}

func TestAS36OutgoingMessagesCommitWithTheHandler(t *testing.T) {
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
		}, consumer.Config{Name: "billing", Observer: ops})
		m := waybill.Message{ID: "m", Topic: "orders", CorrelationID: "flow", Tenant: "acme"}
		publish(t, conn, m, "1")
		w.waitStatus(t, "invoice-2", outbox.Pending)
		publish(t, conn, m, "2")
		eventually(t, "the duplicate is skipped", func() bool { return ops.count(waybill.OpDuplicate) == 1 })
		w.everyIDOnce(t, 1)
		if s := w.state(t, "invoice-2"); s.Tenant != "acme" {
			t.Errorf("the outgoing message has the tenant %q, want that of its cause", s.Tenant)
		}
		if n := w.number(t, "SELECT count(*) FROM "+w.table("outbox")+" WHERE correlation_id = 'flow' AND causation_id = 'm'"); n != 1 {
			t.Error("the outgoing message does not name its cause")
		}
	})
}

func TestAS38MessagesWithoutID(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), membroker.New()
	sub := b.Subscriber(consumer.Subscription{Group: "billing", Topics: []string{"orders"}})
	w.startConsumer(t, sub, w.effectHandler("billing"), consumer.Config{Name: "billing"})
	if err := b.PublishRaw("orders", []byte(`{}`), map[string]string{"type": "orders", "source": "x", "specversion": "1.0"}, nil); err != nil {
		t.Fatal(err)
	}
	letters := w.waitLetters(t, deadletter.Filter{}, 1)
	if l := letters[0]; l.Reason != waybill.ReasonNoID || l.Origin != deadletter.FromConsumer {
		t.Errorf("dead letter = %+v, want no_id from the consumer", l)
	}
	for _, id := range []string{"one", "two"} {
		publish(t, b, waybill.Message{ID: id, Topic: "orders", CorrelationID: "flow"}, id)
		w.waitEffects(t, "billing", id, 1)
	}
}

func TestMessageKeyForForeignProducers(t *testing.T) {
	t.Parallel()
	w, b, ops := plainWorld(t), membroker.New(), newOpCounter()
	sub := b.Subscriber(consumer.Subscription{Group: "billing", Topics: []string{"orders"}})
	w.startConsumer(t, sub, w.effectHandler("billing"), consumer.Config{
		Name: "billing", Observer: ops,
		MessageKey: func(m *waybill.Message) (string, error) { return string(m.Payload), nil },
	})
	for range 2 {
		if err := b.PublishRaw("orders", []byte(`order-1`), map[string]string{"type": "orders", "source": "x", "specversion": "1.0"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the second is a duplicate", func() bool { return ops.count(waybill.OpDuplicate) == 1 })
	if n := w.number(t, "SELECT count(*) FROM "+w.table("effects")); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

type placed struct {
	Order string `json:"order"`
}

func TestAS39UnknownMalformedUnhandled(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		conn := b.connect(t)
		mux := consumer.NewMux[pgx.Tx]()
		consumer.On(mux, waybill.NewEventType[placed]("order.placed", 1), func(ctx context.Context, tx pgx.Tx, e placed, m *waybill.Message) error {
			return w.addEffect(ctx, tx, "billing", e.Order)
		})
		mux.Ignore("order.viewed")
		w.startConsumer(t, b.subscribe(t, conn, "billing", "orders"), mux.Serve, consumer.Config{Name: "billing"})
		for id, m := range map[string]waybill.Message{
			"good":    {Type: "order.placed", Payload: []byte(`{"order":"o1"}`)},
			"broken":  {Type: "order.placed", Payload: []byte(`{"order":`)},
			"typed":   {Type: "order.placed", Payload: []byte(`{"order":17}`)},
			"newer":   {Type: "order.placed@v2", Payload: []byte(`{}`)},
			"unknown": {Type: "order.lost", Payload: []byte(`{}`)},
			"ignored": {Type: "order.viewed", Payload: []byte(`{}`)},
		} {
			m.ID, m.Topic = id, "orders"
			publish(t, conn, m, id)
		}
		got := map[string]waybill.Reason{}
		for _, l := range w.waitLetters(t, deadletter.Filter{}, 4) {
			got[l.Message.ID] = l.Reason
			if strings.Contains(l.Error, "17") {
				t.Errorf("the error of %s quotes the payload: %s", l.Message.ID, l.Error)
			}
		}
		want := map[string]waybill.Reason{"broken": waybill.ReasonMalformed, "typed": waybill.ReasonMalformed, "newer": waybill.ReasonUnknownType, "unknown": waybill.ReasonUnknownType}
		if !maps.Equal(got, want) {
			t.Errorf("dead letters = %v, want %v", got, want)
		}
		w.waitEffects(t, "billing", "o1", 1)
	})
}

// TestOrderByKey lets the first of a key fail: later ones of the key wait for it, others go on.
func TestOrderByKey(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		conn := b.connect(t)
		var tries atomic.Int64
		var mu sync.Mutex
		var order []string
		w.startConsumer(t, b.subscribe(t, conn, "billing", "orders"), func(_ context.Context, _ pgx.Tx, m *waybill.Message) error {
			if m.ID == "a0" && tries.Add(1) <= 2 {
				return errors.New("not now")
			}
			mu.Lock()
			defer mu.Unlock()
			order = append(order, m.ID)
			return nil
		}, consumer.Config{Name: "billing", Order: consumer.OrderByKey})
		for i := range 5 {
			publish(t, conn, waybill.Message{ID: fmt.Sprintf("a%d", i), Topic: "orders", Key: "a"}, fmt.Sprintf("a%d", i))
		}
		publish(t, conn, waybill.Message{ID: "b", Topic: "orders", Key: "b"}, "b")
		handled := func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(order) }
		eventually(t, "all are handled", func() bool { return len(handled()) == 6 })
		got := handled()
		if got[0] != "b" {
			t.Errorf("b was handled after %v, want it before the blocked key", got)
		}
		if a := slices.DeleteFunc(got, func(id string) bool { return id == "b" }); !slices.Equal(a, []string{"a0", "a1", "a2", "a3", "a4"}) {
			t.Errorf("key a was handled as %v", a)
		}
	})
}

// TestRequeueRunsOneConsumerOnly requeues a consumer's dead letter five seconds (scaled to
// half a second) after the first publish: the handler runs again, a healthy consumer of the
// same topic does not see it.
func TestRequeueRunsOneConsumerOnly(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, b brokerSettings) {
		conn := b.connect(t)
		var fixed atomic.Bool
		var healthy atomic.Int64
		w.startConsumer(t, b.subscribe(t, conn, "billing", "orders"), func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
			if !fixed.Load() {
				return waybill.PermanentError(waybill.ReasonRejected, errors.New("bug"))
			}
			return w.addEffect(ctx, tx, "billing", m.ID)
		}, consumer.Config{Name: "billing"})
		w.startConsumer(t, b.subscribe(t, conn, "shipping", "orders"), func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
			healthy.Add(1)
			return nil
		}, consumer.Config{Name: "shipping"})
		w.enqueue(t, waybill.Message{ID: "m", Topic: "orders", Payload: []byte("exact")})
		w.startRelay(t, conn.Publisher(), relay.Config{})
		letter := w.waitLetters(t, deadletter.Filter{Consumer: "billing"}, 1)[0]
		fixed.Store(true)
		for i, want := range []bool{true, false} {
			ok, err := w.store.RequeueDeadLetter(t.Context(), letter.Number)
			if i == 1 && errors.Is(err, waybill.ErrNotFound) {
				break // it has run already and is gone
			}
			if err != nil || ok != want {
				t.Errorf("requeue %d = %v, %v; want %v", i+1, ok, err, want)
			}
		}
		w.waitEffects(t, "billing", "m", 1)
		w.waitLetters(t, deadletter.Filter{}, 0)
		if n := healthy.Load(); n != 1 {
			t.Errorf("the healthy consumer ran %d times, want 1", n)
		}
		publish(t, conn, waybill.Message{ID: "m", Topic: "orders", Payload: []byte("exact")}, "m#again")
		publish(t, conn, waybill.Message{ID: "last", Topic: "orders"}, "last")
		w.waitEffects(t, "billing", "last", 1)
		if n := w.effects(t, "billing", "m"); n != 1 {
			t.Errorf("%d effects after a redelivery of the requeued message, want 1", n)
		}
	})
}

// TestRequeuedPublishIsNotSwallowed requeues a relay's dead letter that JetStream had in fact
// stored under its id: a second publish under the same deduplication id would be swallowed.
func TestRequeuedPublishIsNotSwallowed(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), newBroker(t, "nats")
	conn := b.connect(t)
	w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
	_, stop := w.startRelay(t, refusedAfterwards{conn.Publisher()}, relay.Config{})
	letter := w.waitLetters(t, deadletter.Filter{}, 1)[0]
	stop()
	if ok, err := w.store.RequeueDeadLetter(t.Context(), letter.Number); err != nil || !ok {
		t.Fatalf("requeue = %v, %v", ok, err)
	}
	w.startRelay(t, conn.Publisher(), relay.Config{})
	w.waitStatus(t, "m", outbox.Published)
	if n := b.stored(t, "audit"); n != 2 {
		t.Errorf("the stream holds %d messages, want 2: one per life", n)
	}
}

// refusedAfterwards publishes for real and then says that the broker refused.
type refusedAfterwards struct{ relay.Publisher }

func (p refusedAfterwards) Send(ctx context.Context, msgs []relay.Outgoing) func() []error {
	wait := p.Publisher.Send(ctx, msgs)
	return func() []error {
		errs := wait()
		for i := range errs {
			errs[i] = waybill.PermanentError(waybill.ReasonRejected, errors.New("refused"))
		}
		return errs
	}
}

// TestReusedIDIsNotSwallowed enqueues an id again while JetStream still remembers it.
func TestReusedIDIsNotSwallowed(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), newBroker(t, "nats")
	w.startRelay(t, b.connect(t).Publisher(), relay.Config{})
	for range 2 {
		w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
		eventually(t, "nothing is pending", func() bool {
			return !slices.ContainsFunc(w.statuses(t, "m"), func(s outbox.Status) bool { return s != outbox.Published })
		})
	}
	if n := b.stored(t, "audit"); n != 2 {
		t.Errorf("the stream holds %d messages, want both", n)
	}
}

// TestInboxIsolation runs the gate and a clash of handlers in each kind of session.
func TestInboxIsolation(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		b := membroker.New()
		sub := b.Subscriber(consumer.Subscription{Group: "billing", Topics: []string{"orders"}})
		w.exec(t, "INSERT INTO "+w.table("orders")+" VALUES ('counter')")
		w.startConsumer(t, sub, func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
			if _, err := tx.Exec(ctx, "UPDATE "+w.table("orders")+" SET id = id WHERE id = 'counter'"); err != nil {
				return err
			}
			return w.addEffect(ctx, tx, "billing", m.ID)
		}, consumer.Config{Name: "billing", Concurrency: 8})
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

// TestHandlerErrorsKeepTheirKind: an EOF or a timeout of something else that the handler uses
// is not the database's, and counts.
func TestHandlerErrorsKeepTheirKind(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{"EOF": io.ErrUnexpectedEOF, "network": &net.OpError{Op: "dial", Err: errors.New("refused")}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, b := plainWorld(t), membroker.New()
			sub := b.Subscriber(consumer.Subscription{Group: "billing", Topics: []string{"orders"}})
			w.startConsumer(t, sub, func(context.Context, pgx.Tx, *waybill.Message) error { return cause },
				consumer.Config{Name: "billing", Retry: waybill.RetryPolicy{MaxRetries: 1, BaseDelay: 10 * time.Millisecond}})
			publish(t, b, waybill.Message{ID: "m", Topic: "orders"}, "m")
			if l := w.waitLetters(t, deadletter.Filter{}, 1)[0]; l.Attempts != 2 || l.Reason != waybill.ReasonExhausted {
				t.Errorf("dead letter = %+v, want it exhausted after 2 attempts", l)
			}
		})
	}
}

// TestHandlerTimeoutCounts also when it strikes within a statement, which costs the connection.
func TestHandlerTimeoutCounts(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), membroker.New()
	sub := b.Subscriber(consumer.Subscription{Group: "billing", Topics: []string{"orders"}})
	w.startConsumer(t, sub, func(ctx context.Context, tx pgx.Tx, _ *waybill.Message) error {
		_, err := tx.Exec(ctx, "SELECT pg_sleep(60)")
		return fmt.Errorf("gave up: %v", err) // the cause is not wrapped
	}, consumer.Config{Name: "billing", HandlerTimeout: 50 * time.Millisecond, Retry: waybill.RetryPolicy{MaxRetries: 1, BaseDelay: 10 * time.Millisecond}})
	publish(t, b, waybill.Message{ID: "m", Topic: "orders"}, "m")
	if l := w.waitLetters(t, deadletter.Filter{}, 1)[0]; l.Attempts != 2 {
		t.Errorf("dead letter = %+v, want it exhausted after 2 attempts", l)
	}
}

// TestLostConnectionDoesNotCount kills the handler's database session.
func TestLostConnectionDoesNotCount(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), membroker.New()
	sub := b.Subscriber(consumer.Subscription{Group: "billing", Topics: []string{"orders"}})
	var kills atomic.Int64
	w.startConsumer(t, sub, func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
		if kills.Add(1) > 1 {
			return w.addEffect(ctx, tx, "billing", m.ID)
		}
		if _, err := w.pool.Exec(ctx, "SELECT pg_terminate_backend($1)", tx.Conn().PgConn().PID()); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "SELECT 1")
		return fmt.Errorf("business rule: %v", err) // the cause is not wrapped
	}, consumer.Config{Name: "billing", Retry: waybill.RetryPolicy{MaxRetries: waybill.NoRetries}})
	publish(t, b, waybill.Message{ID: "m", Topic: "orders"}, "m")
	w.waitEffects(t, "billing", "m", 1)
	w.waitLetters(t, deadletter.Filter{}, 0)
}

// TestOrderByKeyAtShutdown stops a consumer while a key's first message fails: what follows
// it must not be handled on the way out.
func TestOrderByKeyAtShutdown(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	for range 10 {
		b := membroker.New()
		sub := b.Subscriber(consumer.Subscription{Group: "billing", Topics: []string{"orders"}})
		failed, handled := make(chan struct{}, 100), make(chan string, 100)
		_, stop := w.startConsumer(t, sub, func(_ context.Context, _ pgx.Tx, m *waybill.Message) error {
			if m.Subject == "first" {
				failed <- struct{}{}
				return errors.New("not now")
			}
			handled <- m.ID
			return nil
		}, consumer.Config{Name: "billing", Order: consumer.OrderByKey, Retry: waybill.RetryPolicy{BaseDelay: time.Hour, MaxDelay: time.Hour}})
		publish(t, b, waybill.Message{Topic: "orders", Key: "a", Subject: "first"}, "")
		for range 5 {
			publish(t, b, waybill.Message{Topic: "orders", Key: "a"}, "")
		}
		<-failed
		stop()
		if n := len(handled); n != 0 {
			t.Fatalf("%d messages overtook the failed one at the shutdown", n)
		}
	}
}

// TestUnfitMessagesAreKeptApart: ids that are equal as far as they can be stored are not one.
func TestUnfitMessagesAreKeptApart(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), membroker.New()
	sub := b.Subscriber(consumer.Subscription{Group: "billing", Topics: []string{"orders"}})
	w.startConsumer(t, sub, w.effectHandler("billing"), consumer.Config{Name: "billing"})
	for _, end := range []string{"1", "2", "2"} {
		id := strings.Repeat("x", waybill.MaxIDLen) + end
		if err := b.PublishRaw("orders", nil, map[string]string{"id": id, "type": "t", "source": "s", "specversion": "1.0"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	publish(t, b, waybill.Message{ID: "last", Topic: "orders"}, "last")
	w.waitEffects(t, "billing", "last", 1)
	w.waitLetters(t, deadletter.Filter{}, 2) // and the repeated one is no third
}
