package e2e

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/relay"
)

// TestRequeueRunsOneConsumerOnly requeues a consumer's dead letter five seconds (scaled to
// half a second) after the first publish: the handler runs again, a healthy consumer of the
// same topic does not see it.
//
//test:sessions
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
		}, consumer.Config{})
		w.startConsumer(t, b.subscribe(t, conn, "shipping", "orders"), func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
			healthy.Add(1)
			return nil
		}, consumer.Config{})
		w.enqueue(t, waybill.Message{ID: "m", Topic: "orders", Payload: []byte("exact")})
		w.startRelay(t, conn.Publisher(), relay.Config{})
		letter := w.waitLetters(t, deadletter.Filter{Consumer: b.group("billing")}, 1)[0]
		fixed.Store(true)
		for i, want := range []bool{true, false} {
			ok, err := w.store.RequeueDeadLetter(t.Context(), letter.Number, deadletter.Act{By: "test"})
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

// TestRequeuedRunFinishes stops a consumer while it runs a requeued letter: as with a delivery,
// the handler may finish. A deployment is no failure, and counts against no letter.
//
//test:sessions
func TestRequeuedRunFinishes(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	w.buried(t, waybill.Message{ID: "m", Topic: "orders", Source: "shop"})
	w.requeueLetter(t, "m")
	reached, proceed := make(chan struct{}), make(chan struct{})
	sub := consumer.Subscription{Group: "billing", Topics: []string{"orders"}}
	cons, err := consumer.New(membroker.New(), sub, w.store, func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
		close(reached)
		<-proceed
		return w.addEffect(ctx, tx, "billing", m.ID)
	}, quickConsumer(consumer.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cons.Run(ctx) }()
	<-reached
	cancel()
	close(proceed)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := w.effects(t, "billing", "m"); n != 1 {
		t.Errorf("%d effects, want that of the handler that was running", n)
	}
	w.waitLetters(t, deadletter.Filter{}, 0)
}

// TestRequeuedPublishIsNotSwallowed requeues a relay's dead letter that JetStream had in fact
// stored under its id: a second publish under the same deduplication id would be swallowed.
//
//test:sessions
func TestRequeuedPublishIsNotSwallowed(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), newBroker(t, "nats")
	conn := b.connect(t)
	w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
	_, stop := w.startRelay(t, refusedAfterwards{conn.Publisher()}, relay.Config{})
	letter := w.waitLetters(t, deadletter.Filter{}, 1)[0]
	stop()
	if ok, err := w.store.RequeueDeadLetter(t.Context(), letter.Number, deadletter.Act{By: "test"}); err != nil || !ok {
		t.Fatalf("requeue = %v, %v", ok, err)
	}
	w.startRelay(t, conn.Publisher(), relay.Config{})
	w.waitStatus(t, "m", inspect.Published)
	if n := b.stored(t, "audit"); n != 2 {
		t.Errorf("the stream holds %d messages, want 2: one per life", n)
	}
}

// refusedAfterwards publishes for real and then says that the broker refused.
type refusedAfterwards struct{ contract.Publisher }

func (p refusedAfterwards) Send(ctx context.Context, msgs []contract.Outgoing) func() []error {
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
//
//test:sessions
func TestReusedIDIsNotSwallowed(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), newBroker(t, "nats")
	w.startRelay(t, b.connect(t).Publisher(), relay.Config{})
	for range 2 {
		w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
		eventually(t, "nothing is pending", func() bool {
			return !slices.ContainsFunc(w.statuses(t, "m"), func(s inspect.Status) bool { return s != inspect.Published })
		})
	}
	if n := b.stored(t, "audit"); n != 2 {
		t.Errorf("the stream holds %d messages, want both", n)
	}
}
