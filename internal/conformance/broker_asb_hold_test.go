package conformance

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/asbbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/testtools/sbfake"
)

// renewed waits until a lock was renewed once more.
func (a *asb) renewed(t *testing.T) {
	t.Helper()
	before := a.fake.Renewals()
	asbEventually(t, func() bool { return a.fake.Renewals() > before })
}

// TestASBBroker_WaitingKeepsLock: what has come in and waits for a slot is not redelivered meanwhile.
func TestASBBroker_WaitingKeepsLock(t *testing.T) {
	t.Parallel()
	a, b, s := asbSubscribed(t, asbbroker.Config{})
	got := asbReceive(t, b, s, 1)
	for _, text := range []string{"1", "2"} {
		must(t, asbSend(t, b, waybill.Message{Topic: "t", Payload: []byte(text)}))
	}
	first, _ := asbNext(t, got)
	if err := first.Retry(t.Context(), time.Millisecond); err != nil {
		t.Fatal(err)
	}
	second, _ := asbNext(t, got) // has the slot, and its copy comes from another queue
	asbEventually(t, func() bool { _, locked, _ := a.fake.Count("to/waybill-retry/g"); return locked == 1 })
	for range 2 { // longer than the lock in all
		a.fake.Advance(asbLock * 2 / 3)
		if err := second.Extend(t.Context()); err != nil {
			t.Fatalf("Extend() = %v", err)
		}
		a.renewed(t)
	}
	for _, d := range []contract.Delivery{second, nil} {
		if d == nil {
			d, _ = asbNext(t, got)
		}
		if err := d.Ack(t.Context()); err != nil {
			t.Errorf("Ack() = %v, want the lock kept", err)
		}
	}
	if ready, locked, _ := a.fake.Count("to/waybill-retry/g"); ready+locked != 0 || len(got) > 0 {
		t.Errorf("%d messages are left, %d more arrived", ready+locked, len(got))
	}
}

// TestASBBroker_SessionKeepsLock: a session is kept while one of its messages is worked on, after
// the subscription has stopped too.
func TestASBBroker_SessionKeepsLock(t *testing.T) {
	t.Parallel()
	a, b, s := asbSubscribed(t, asbbroker.Config{Sessions: true})
	must(t, asbSend(t, b, waybill.Message{Topic: "t", Key: "k"}))
	ctx, stop := context.WithCancel(t.Context())
	got, ended := make(chan contract.Delivery, 1), make(chan error, 1)
	go func() { ended <- b.Subscriber(s).Subscribe(ctx, 1, func(d contract.Delivery) { got <- d }) }()
	held, _ := asbNext(t, got)
	for range 2 {
		a.fake.Advance(asbLock * 2 / 3)
		a.renewed(t)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Subscribe() = %v, want nil", err)
	}
	if err := held.Ack(t.Context()); err != nil {
		t.Errorf("Ack() = %v, want the session kept", err)
	}
	if ready, locked, _ := a.fake.Count("t/subscriptions/g"); ready+locked != 0 {
		t.Errorf("%d messages are left, want none", ready+locked)
	}
}

// TestASBBroker_SessionRetried: what waits for its next attempt is in no session.
func TestASBBroker_SessionRetried(t *testing.T) {
	t.Parallel()
	_, b, s := asbSubscribed(t, asbbroker.Config{Sessions: true})
	got := asbReceive(t, b, s, 1)
	must(t, asbSend(t, b, waybill.Message{Topic: "t", Key: "k"}))
	for range 2 {
		d, _ := asbNext(t, got)
		if err := d.Retry(t.Context(), time.Millisecond); err != nil {
			t.Fatalf("Retry() = %v", err)
		}
	}
	d, _ := asbNext(t, got)
	if m, _ := d.Message(); m.Key != "k" || m.Topic != "t" {
		t.Errorf("got %+v", m)
	}
}

// TestASBBroker_RetryRefused: the original is not acknowledged before its copy is stored.
func TestASBBroker_RetryRefused(t *testing.T) {
	t.Parallel()
	a, b, s := asbSubscribed(t, asbbroker.Config{})
	got := asbReceive(t, b, s, 1)
	must(t, asbSend(t, b, waybill.Message{Topic: "t", Payload: []byte("1")}))
	d, _ := asbNext(t, got)
	a.fake.Refuse(1, "com.microsoft:server-busy")
	if err := d.Retry(t.Context(), time.Minute); !waybill.IsUnavailable(err) {
		t.Errorf("Retry() = %v, want unavailable", err)
	}
	a.fake.Advance(asbLock + time.Second)
	again, text := asbNext(t, got)
	if text != "1" || !again.Redelivered() {
		t.Errorf("payload %q, Redelivered() = %t, want the message redelivered", text, again.Redelivered())
	}
}

// TestASBBroker_RetryInDeduplicatingQueue: a queue for retries that somebody else has made drops no
// second retry.
func TestASBBroker_RetryInDeduplicatingQueue(t *testing.T) {
	t.Parallel()
	a := newFakeASB(t)
	b := a.open(t, asbbroker.Config{DeclareNothing: true})
	a.fake.Topic("t", sbfake.Settings{})
	a.fake.Subscription("t", "g", sbfake.Settings{})
	a.fake.Queue("to/waybill-retry/g", sbfake.Settings{DuplicateWindow: time.Hour})
	got := asbReceive(t, b, consumer.Subscription{Group: "g", Topics: []string{"t"}}, 1)
	must(t, asbSend(t, b, waybill.Message{Topic: "t"}))
	for range 3 {
		d, _ := asbNext(t, got)
		if err := d.Retry(t.Context(), time.Millisecond); err != nil {
			t.Fatalf("Retry() = %v", err)
		}
	}
	asbNext(t, got)
}

// TestASBBroker_SettledOnce: a second settlement is an error, and takes no slot from others.
func TestASBBroker_SettledOnce(t *testing.T) {
	t.Parallel()
	_, b, s := asbSubscribed(t, asbbroker.Config{})
	got := asbReceive(t, b, s, 2)
	for range 2 {
		must(t, asbSend(t, b, waybill.Message{Topic: "t"}))
	}
	d, _ := asbNext(t, got)
	asbNext(t, got)
	if err := d.Ack(t.Context()); err != nil {
		t.Fatalf("Ack() = %v", err)
	}
	for doing, err := range map[string]error{"Ack": d.Ack(t.Context()), "Retry": d.Retry(t.Context(), time.Second)} {
		if err == nil || !strings.Contains(err.Error(), "settled already") {
			t.Errorf("%s() = %v after Ack, want an error", doing, err)
		}
	}
}

// TestASBBroker_UnusableEntities: what would lose or double messages ends Subscribe.
func TestASBBroker_UnusableEntities(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, want string
		make       func(fake *sbfake.Server)
	}{
		{"retries taken for duplicates", "detects duplicates", func(fake *sbfake.Server) {
			fake.Queue("to/waybill-retry/g", sbfake.Settings{DuplicateWindow: time.Minute})
		}},
		{"lock too short", "locks messages for 5s", func(fake *sbfake.Server) {
			fake.Topic("t", sbfake.Settings{})
			fake.Subscription("t", "g", sbfake.Settings{LockDuration: 5 * time.Second})
		}},
		{"sessions that were not asked for", "RequiresSession true", func(fake *sbfake.Server) {
			fake.Topic("t", sbfake.Settings{})
			fake.Subscription("t", "g", sbfake.Settings{Sessions: true})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := newFakeASB(t)
			tc.make(a.fake)
			b := a.open(t, asbbroker.Config{})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err := b.Subscriber(consumer.Subscription{Group: "g", Topics: []string{"t"}}).Subscribe(ctx, 1, func(contract.Delivery) {})
			if !waybill.IsPermanent(err) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Subscribe() = %v, want a permanent error with %q", err, tc.want)
			}
		})
	}
}

// TestASBBroker_NothingDeclared: a caller that declares nothing receives the error that something is missing.
func TestASBBroker_NothingDeclared(t *testing.T) {
	t.Parallel()
	a := newFakeASB(t)
	b := a.open(t, asbbroker.Config{DeclareNothing: true})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := b.Subscriber(consumer.Subscription{Group: "g", Topics: []string{"t"}}).Subscribe(ctx, 1, func(contract.Delivery) {})
	if waybill.ReasonOf(err) != waybill.ReasonUnroutable || !waybill.IsPermanent(err) {
		t.Errorf("Subscribe() = %v, want a permanent error that the entity is missing", err)
	}
}

// TestASBBroker_SubscriptionRemoved: it is recreated, and the settlement of what it held does not
// blame the message.
func TestASBBroker_SubscriptionRemoved(t *testing.T) {
	t.Parallel()
	a, b, s := asbSubscribed(t, asbbroker.Config{})
	got := asbReceive(t, b, s, 10)
	must(t, asbSend(t, b, waybill.Message{Topic: "t", Payload: []byte("before")}))
	held, _ := asbNext(t, got)
	a.fake.Remove("t/subscriptions/g")
	if err := held.Ack(t.Context()); !waybill.IsUnavailable(err) {
		t.Errorf("Ack() = %v of kind %v, want unavailable", err, waybill.KindOf(err))
	}
	asbEventually(t, func() bool {
		return asbSend(t, b, waybill.Message{Topic: "t", Payload: []byte("after")}) == nil && len(got) > 0
	})
	if _, text := asbNext(t, got); text != "after" {
		t.Errorf("payload %q, want after", text)
	}
}

// barrier holds requests back while it is locked.
type barrier struct {
	sync.RWMutex
	to http.RoundTripper
}

func (b *barrier) RoundTrip(r *http.Request) (*http.Response, error) {
	b.RLock()
	defer b.RUnlock()
	return b.to.RoundTrip(r)
}

// TestASBBroker_SubscriptionReplaced: Subscribe ends if somebody puts one in its place that it cannot
// use.
func TestASBBroker_SubscriptionReplaced(t *testing.T) {
	t.Parallel()
	a := newFakeASB(t)
	g := &barrier{to: a.http.Transport}
	a.http = &http.Client{Transport: g}
	b := a.open(t, asbbroker.Config{})
	s := consumer.Subscription{Group: "g", Topics: []string{"t"}}
	asbApply(t, b, s)
	got, ended := make(chan contract.Delivery, 10), make(chan error, 1)
	go func() { ended <- b.Subscriber(s).Subscribe(t.Context(), 1, func(d contract.Delivery) { got <- d }) }()
	must(t, asbSend(t, b, waybill.Message{Topic: "t"}))
	asbNext(t, got)
	g.Lock()
	a.fake.Remove("t/subscriptions/g")
	a.fake.Subscription("t", "g", sbfake.Settings{LockDuration: 5 * time.Second})
	a.fake.Remove("to/waybill-retry/g")
	g.Unlock()
	select {
	case err := <-ended:
		if !waybill.IsPermanent(err) {
			t.Errorf("Subscribe() = %v, want a permanent error", err)
		}
	case <-time.After(patience):
		t.Error("Subscribe goes on with a subscription that it cannot use")
	}
}
