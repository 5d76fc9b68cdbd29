package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/asbbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

// asbSend publishes one message as the first attempt of its first life.
func asbSend(t *testing.T, b *asbbroker.Broker, m waybill.Message) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	m.Complete()
	return b.Publisher().Send(ctx, []contract.Outgoing{{Message: &m, DedupID: m.ID}})()[0]
}

// asbReceive subscribes until the test ends.
func asbReceive(t *testing.T, b *asbbroker.Broker, s consumer.Subscription, prefetch int) <-chan contract.Delivery {
	t.Helper()
	return asbReceiveFrom(t, b.Subscriber(s), prefetch)
}

func asbReceiveFrom(t *testing.T, s contract.Subscriber, prefetch int) <-chan contract.Delivery {
	t.Helper()
	got := make(chan contract.Delivery, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Subscribe(ctx, prefetch, func(d contract.Delivery) { got <- d }) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return got
}

func asbNext(t *testing.T, got <-chan contract.Delivery) (contract.Delivery, string) {
	t.Helper()
	select {
	case d := <-got:
		m, err := d.Message()
		if err != nil {
			t.Fatalf("Message() = %v", err)
		}
		return d, string(m.Payload)
	case <-time.After(patience):
		t.Fatal("no message arrived")
		return nil, ""
	}
}

func asbApply(t *testing.T, b *asbbroker.Broker, s ...consumer.Subscription) {
	t.Helper()
	if _, err := b.Apply(t.Context(), broker.Wanted{Subscriptions: s}); err != nil {
		t.Fatal(err)
	}
}

// asbSubscribed opens a broker on a fake of its own, and declares the subscription of group g to topic t.
func asbSubscribed(t *testing.T, cfg asbbroker.Config) (*asb, *asbbroker.Broker, consumer.Subscription) {
	t.Helper()
	a := newFakeASB(t)
	b := a.open(t, cfg)
	s := consumer.Subscription{Group: "g", Topics: []string{"t"}}
	asbApply(t, b, s)
	return a, b, s
}

// The message is stored and the connection cut before the confirm: the outcome is unknown, and
// the relay must receive the error that the connection ended under it.
func TestASBBroker_CutBeforeConfirm(t *testing.T) {
	t.Parallel()
	a, b, s := asbSubscribed(t, asbbroker.Config{})
	a.fake.CutBeforeConfirm()
	err := asbSend(t, b, waybill.Message{Topic: "t", Payload: []byte("1")})
	if !waybill.IsUnavailable(err) || !errors.Is(err, contract.ErrConnectionLost) {
		t.Errorf("Send() = %v of kind %v, want an unavailable ErrConnectionLost", err, waybill.KindOf(err))
	}
	if err := asbSend(t, b, waybill.Message{Topic: "t", Payload: []byte("2")}); err != nil {
		t.Errorf("Send() = %v after the cut, want a new connection", err)
	}
	got := asbReceive(t, b, s, 10)
	for _, want := range []string{"1", "2"} {
		if _, text := asbNext(t, got); text != want {
			t.Errorf("payload %q, want %q", text, want)
		}
	}
}

func TestASBBroker_ServerBusy(t *testing.T) {
	t.Parallel()
	a := newFakeASB(t)
	b := a.open(t, asbbroker.Config{})
	asbApply(t, b, consumer.Subscription{Group: "g", Topics: []string{"t"}})
	a.fake.Refuse(1, "com.microsoft:server-busy")
	err := asbSend(t, b, waybill.Message{Topic: "t"})
	if !waybill.IsUnavailable(err) {
		t.Errorf("Send() = %v of kind %v, want unavailable", err, waybill.KindOf(err))
	}
	if strings.Contains(fmt.Sprint(err), "c2VjcmV0") {
		t.Error("the error holds the key")
	}
}

// A consumer is cut off with a message in flight, and settles it after it has connected again.
func TestASBBroker_ConnectionLost(t *testing.T) {
	t.Parallel()
	a := newFakeASB(t)
	b := a.open(t, asbbroker.Config{})
	s := consumer.Subscription{Group: "g", Topics: []string{"t"}}
	got := asbReceive(t, b, s, 10)
	asbApply(t, b, s)
	must(t, asbSend(t, b, waybill.Message{Topic: "t", Payload: []byte("1")}))
	held, _ := asbNext(t, got)
	a.fake.DropConnections()
	if err := held.Ack(t.Context()); err != nil {
		t.Errorf("Ack() = %v after the connection was lost, want it settled by its lock", err)
	}
	if ready, locked, _ := a.fake.Count("t/subscriptions/g"); ready+locked != 0 {
		t.Errorf("%d messages are left, want none", ready+locked)
	}
	asbEventually(t, func() bool { return asbSend(t, b, waybill.Message{Topic: "t", Payload: []byte("2")}) == nil })
	if _, text := asbNext(t, got); text != "2" {
		t.Errorf("payload %q, want 2", text)
	}
}

// TestASBBroker_StoppedGivesBack: what is in flight to a subscription that stops does not wait for
// its lock to expire.
func TestASBBroker_StoppedGivesBack(t *testing.T) {
	t.Parallel()
	a, b, s := asbSubscribed(t, asbbroker.Config{})
	for range 5 {
		must(t, asbSend(t, b, waybill.Message{Topic: "t"}))
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := b.Subscriber(s).Subscribe(ctx, 5, func(contract.Delivery) { cancel() }); err != nil {
		t.Fatal(err)
	}
	if ready, locked, _ := a.fake.Count("t/subscriptions/g"); ready != 4 || locked != 1 {
		t.Errorf("%d messages are ready, %d locked, want 4 and the one that was passed on", ready, locked)
	}
}

func asbEventually(t *testing.T, done func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !done(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain", patience)
		}
	}
}

func TestASBBroker_LockLost(t *testing.T) {
	t.Parallel()
	a, b, s := asbSubscribed(t, asbbroker.Config{})
	got := asbReceive(t, b, s, 10)
	must(t, asbSend(t, b, waybill.Message{Topic: "t", Payload: []byte("1")}))
	held, _ := asbNext(t, got)
	a.fake.ExpireLocks("t/subscriptions/g")
	if err := held.Extend(t.Context()); err == nil {
		t.Error("Extend() = nil without a lock")
	}
	if err := held.Ack(t.Context()); !waybill.IsUnavailable(err) {
		t.Errorf("Ack() = %v of kind %v, want unavailable", err, waybill.KindOf(err))
	}
	again, _ := asbNext(t, got)
	if !again.Redelivered() {
		t.Error("Redelivered() = false after the lock was lost")
	}
	if err := again.Ack(t.Context()); err != nil {
		t.Errorf("Ack() = %v", err)
	}
}

// The topic detects duplicates: what is published twice arrives once, equal ids of two sources
// both arrive, and a retry is not taken for a duplicate.
func TestASBBroker_DuplicateDetection(t *testing.T) {
	t.Parallel()
	a := newFakeASB(t)
	b := a.open(t, asbbroker.Config{DuplicateWindow: time.Minute})
	if d, ok := b.Publisher().(contract.Deduplicator); !ok || d.DedupWindow() != time.Minute {
		t.Error("the publisher does not tell the relay of the window")
	}
	s := consumer.Subscription{Group: "g", Topics: []string{"t"}}
	asbApply(t, b, s)
	for _, source := range []string{"a", "a", "b"} {
		must(t, asbSend(t, b, waybill.Message{ID: "1", Source: source, Topic: "t", Payload: []byte(source)}))
	}
	got := asbReceive(t, b, s, 1)
	d, _ := asbNext(t, got)
	if err := d.Retry(t.Context(), 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]int)
	for range 2 {
		d, text := asbNext(t, got)
		seen[text]++
		if err := d.Ack(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if ready, locked, _ := a.fake.Count("t/subscriptions/g"); seen["a"] != 1 || seen["b"] != 1 || ready+locked != 0 {
		t.Errorf("arrived: %v, left: %d, want a and b once each", seen, ready+locked)
	}
}

// With sessions two replicas never hold messages of one key at a time, and each key keeps its
// order.
func TestASBBroker_Sessions(t *testing.T) {
	t.Parallel()
	a := newFakeASB(t)
	s := consumer.Subscription{Group: "g", Topics: []string{"t"}}
	publisher := a.open(t, asbbroker.Config{Sessions: true})
	asbApply(t, publisher, s)
	const keys, n = 12, 10 // more keys than both hold at a time
	for i := range n {
		for key := range keys {
			m := waybill.Message{Topic: "t", Key: fmt.Sprint("k", key), Payload: []byte(fmt.Sprint(i))}
			if err := asbSend(t, publisher, m); err != nil {
				t.Fatal(err)
			}
		}
	}
	one := asbReceive(t, a.open(t, asbbroker.Config{Sessions: true}), s, 4)
	two := asbReceive(t, a.open(t, asbbroker.Config{Sessions: true}), s, 4)
	next := make(map[string]int)
	for range keys * n {
		var d contract.Delivery
		select {
		case d = <-one:
		case d = <-two:
		case <-time.After(patience):
			t.Fatalf("arrived: %v, want %d of each key", next, n)
		}
		m, err := d.Message()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(m.Payload), fmt.Sprint(next[m.Key]); got != want {
			t.Fatalf("key %s: message %s, want %s", m.Key, got, want)
		}
		next[m.Key]++
		if err := d.Ack(t.Context()); err != nil {
			t.Fatalf("Ack() = %v", err)
		}
	}
}

func TestASBBroker_Topology(t *testing.T) {
	t.Parallel()
	a := newFakeASB(t)
	b := a.open(t, asbbroker.Config{})
	w := broker.Wanted{Topics: []string{"t"}, Subscriptions: []consumer.Subscription{{Group: "g", Topics: []string{"t"}, To: "d"}}}
	expect := func(doing string, steps []broker.Step, err error, want broker.Action) {
		t.Helper()
		if err != nil || len(steps) != 4 {
			t.Fatalf("%s = %v, %v, want 4 steps", doing, steps, err)
		}
		for _, step := range steps {
			if step.Action != want {
				t.Errorf("%s: %+v, want %s", doing, step, want)
			}
		}
	}
	for _, want := range []broker.Action{broker.Create, broker.Create} { // Plan changes nothing
		steps, err := b.Plan(t.Context(), w)
		expect("Plan", steps, err, want)
	}
	steps, err := b.Apply(t.Context(), w)
	expect("Apply", steps, err, broker.Create)
	steps, err = b.Plan(t.Context(), w)
	expect("Plan after Apply", steps, err, broker.Keep)

	other := a.open(t, asbbroker.Config{Sessions: true})
	if steps, err = other.Plan(t.Context(), w); err != nil || steps[1].Action != broker.Conflict {
		t.Errorf("Plan with sessions = %+v, %v, want a conflict about the subscription", steps, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := other.Subscriber(w.Subscriptions[0]).Subscribe(ctx, 1, func(contract.Delivery) {}); !waybill.IsPermanent(err) {
		t.Errorf("Subscribe with sessions = %v, want a permanent error", err)
	}
}

// A producer that knows nothing of CloudEvents.
func TestASBBroker_ForeignMessage(t *testing.T) {
	t.Parallel()
	a, b, s := asbSubscribed(t, asbbroker.Config{})
	id, subject, kind, cause := "42", "OrderPlaced", "text/plain", "order-7"
	a.publish(t, "t", &azservicebus.Message{
		MessageID: &id, Subject: &subject, ContentType: &kind, CorrelationID: &cause, Body: []byte("x"),
		ApplicationProperties: map[string]any{"Number": int64(7), "Flag": true},
	})
	got := asbReceive(t, b, s, 1)
	for _, again := range []bool{false, true} {
		d, _ := asbNext(t, got)
		m, _ := d.Message()
		if m.ID != id || m.Type != subject || m.ContentType != kind || m.CorrelationID != cause || m.Topic != "t" || m.Headers["number"] != "7" || m.Headers["flag"] != "true" || d.Redelivered() != again {
			t.Errorf("arrived: %+v, redelivered: %t", m, d.Redelivered())
		}
		if err := d.Retry(t.Context(), 20*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}
