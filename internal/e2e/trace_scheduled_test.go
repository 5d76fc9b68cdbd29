package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/observe/otelobserve"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/schedule"
)

// TestTraceThroughSchedule (AS-68) schedules a message in a request, for ten minutes later, which a change of
// its time cuts short: the handler runs in the request's trace.
//
//test:sessions
func TestTraceThroughSchedule(t *testing.T) {
	t.Parallel()
	onAgendas(t, func(t *testing.T, a *agenda) {
		provider := sdktrace.NewTracerProvider()
		o, err := otelobserve.New(otelobserve.Config{System: "memory", TracerProvider: provider, MeterProvider: sdkmetric.NewMeterProvider()})
		if err != nil {
			t.Fatal(err)
		}
		b := membroker.New()
		handled := a.runTraced(t, b, o)
		s, err := schedule.NewScheduler(a.store.(schedule.Store[*sql.Tx]), schedule.Config{Source: "shop", Observer: o})
		if err != nil {
			t.Fatal(err)
		}
		_, request := provider.Tracer("shop").Start(t.Context(), "POST /orders")
		a.tx(t, func(ctx context.Context, tx *sql.Tx) error {
			_, err := s.After(trace.ContextWithSpan(ctx, request), tx, waybill.Message{ID: "order", Topic: "orders"}, 10*time.Minute)
			return err
		})
		request.End()
		a.tx(t, func(ctx context.Context, tx *sql.Tx) error {
			moved, err := s.Reschedule(ctx, tx, "order", time.Now().Add(time.Second))
			if err == nil && !moved {
				err = fmt.Errorf("Reschedule() = false, want true")
			}
			return err
		})
		select {
		case got := <-handled:
			if got.TraceID() != request.SpanContext().TraceID() || got.SpanID() == request.SpanContext().SpanID() {
				t.Errorf("the handler ran in the span %v, want one of its own in the trace %v", got, request.SpanContext().TraceID())
			}
		case <-time.After(patience):
			t.Error("the message was not handled")
		}
	})
}

// runTraced runs a relay and a consumer that are traced. It returns the span that the handler of
// the first message runs in.
func (a *agenda) runTraced(t *testing.T, b *membroker.Broker, o observe.Observer) <-chan trace.SpanContext {
	t.Helper()
	handled := make(chan trace.SpanContext, 1)
	sub := consumer.Subscription{Group: "billing", Topics: []string{"orders"}}
	c, err := consumer.New(b, sub, a.store.(contract.Inbox[*sql.Tx]), func(ctx context.Context, _ *sql.Tx, _ *waybill.Message) error {
		select {
		case handled <- trace.SpanContextFromContext(ctx):
		default: // the transaction was repeated
		}
		return nil
	}, quickConsumer(consumer.Config{Observer: o}))
	if err != nil {
		t.Fatal(err)
	}
	r, err := relay.New(a.store, b.Publisher(), quick(relay.Config{Observer: o}))
	if err != nil {
		t.Fatal(err)
	}
	run(t, t.Context(), c.Run)
	run(t, t.Context(), r.Run)
	return handled
}
