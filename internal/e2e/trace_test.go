package e2e

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/observe/otelobserve"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/memstore"
)

// traced is a trial that is traced.
type traced struct {
	*trial
	spans   *tracetest.InMemoryExporter
	tracer  trace.Tracer
	metrics *sdkmetric.ManualReader
}

func newTraced(t *testing.T) *traced {
	tr := &traced{spans: tracetest.NewInMemoryExporter(), metrics: sdkmetric.NewManualReader()}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(tr.spans))
	tr.tracer = provider.Tracer("shop")
	o, err := otelobserve.New(otelobserve.Config{System: "memory", TracerProvider: provider, MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(tr.metrics))})
	if err != nil {
		t.Fatal(err)
	}
	tr.trial = newTrial(t, o)
	return tr
}

// begin starts a relay that fails once, and a consumer whose handler does, and which enqueues
// another message.
func (tr *traced) begin(fails string) (stop func()) {
	pub := &moodyPublisher{Publisher: tr.broker.Publisher(), fails: map[string]error{fails: errors.New("broker says later: s3cr3t-payload")}}
	r := tr.relay(tr.store, pub, relay.Config{Node: "r1"})
	var tried atomic.Bool
	billing := tr.consumer("billing", "orders", func(ctx context.Context, tx *memstore.Tx, m *waybill.Message) error {
		if !tried.Swap(true) {
			return waybill.PermanentError(waybill.ReasonRejected, errors.New("s3cr3t-payload"))
		}
		_, err := tr.writer.Enqueue(ctx, tx, waybill.Message{ID: "bill", Topic: "bills"})
		return err
	}, consumer.Config{})
	tr.broker.Subscriber(consumer.Subscription{Group: "mail", Topics: []string{"bills"}})
	stops := []func(){tr.start(billing.Run), tr.start(r.Run)}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// named returns the spans of a name, in the order of their ends.
func (tr *traced) named(name string) (list tracetest.SpanStubs) {
	for _, s := range tr.spans.GetSpans() {
		if s.Name == name {
			list = append(list, s)
		}
	}
	return list
}

func attr(s tracetest.SpanStub, key string) string {
	for _, a := range s.Attributes {
		if a.Key == attribute.Key(key) {
			return a.Value.AsString()
		}
	}
	return ""
}

// TestOneTrace (AS-68): one trace from the request through ten minutes of schedule, a retry of the
// relay and a retry after a dead letter, to the message that the handler enqueues.
//
//test:sessions
func TestOneTrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := newTraced(t)
		stop := tr.begin("order")
		ctx, request := tr.tracer.Start(t.Context(), "POST /orders")
		tr.ctx = ctx
		due := time.Now().Add(10 * time.Minute)
		tr.enqueue(waybill.Message{ID: "order", Topic: "orders", CorrelationID: "flow", DeliverAt: due})
		request.End()
		tr.ctx = t.Context()
		pass(11 * time.Minute)
		tr.requeueAll()
		pass(time.Minute)
		stop()

		enqueued, sent, processed := tr.named("enqueue orders"), tr.named("send orders"), tr.named("process orders")
		next, bill := tr.named("enqueue bills"), tr.named("send bills")
		if len(enqueued) != 1 || len(sent) != 2 || len(processed) != 2 || len(next) != 1 || len(bill) != 1 {
			t.Fatalf("spans: %v", tr.spans.GetSpans())
		}
		for _, s := range tr.spans.GetSpans() {
			if s.SpanContext.TraceID() != request.SpanContext().TraceID() {
				t.Errorf("%s is in another trace", s.Name)
			}
			checkSpan(t, s)
		}
		wantChildren(t, request.SpanContext(), enqueued)
		wantChildren(t, enqueued[0].SpanContext, slices.Concat(sent, processed))
		wantChildren(t, processed[1].SpanContext, next)
		wantChildren(t, next[0].SpanContext, bill)
		if early := due.Sub(sent[0].StartTime); early > 0 {
			t.Errorf("sent %v before it is due", early)
		}
		for _, s := range slices.Concat(sent, processed, bill) {
			if len(s.Links) == 0 || s.Links[0].SpanContext.SpanID() != s.Parent.SpanID() {
				t.Errorf("%s is not linked to the context of its message", s.Name)
			}
		}
		wantStatus(t, sent[0], codes.Error, "transient")
		wantStatus(t, sent[1], codes.Unset, "")
		wantStatus(t, processed[0], codes.Error, "permanent: rejected")
		wantStatus(t, processed[1], codes.Unset, "")
		if attr(processed[0], "messaging.consumer.group.name") != "billing" || attr(sent[0], "messaging.client.id") != "r1" ||
			attr(enqueued[0], "messaging.message.conversation_id") != "flow" {
			t.Error("spans do not say whose they are")
		}
	})
}

// checkSpan checks what every span of ours has, and that none quotes what it must not.
func checkSpan(t *testing.T, s tracetest.SpanStub) {
	t.Helper()
	kinds := map[string]trace.SpanKind{"enqueue": trace.SpanKindProducer, "send": trace.SpanKindClient, "process": trace.SpanKindConsumer}
	op, topic, _ := strings.Cut(s.Name, " ")
	kind, ours := kinds[op]
	if !ours {
		return
	}
	if s.SpanKind != kind || attr(s, "messaging.operation.name") != op || attr(s, "messaging.system") != "memory" ||
		attr(s, "messaging.destination.name") != topic || attr(s, "messaging.message.id") == "" || attr(s, "messaging.operation.type") == "" {
		t.Errorf("%s is a %v with %v", s.Name, s.SpanKind, s.Attributes)
	}
	for _, secret := range secrets {
		if strings.Contains(s.Status.Description, secret) {
			t.Errorf("%s quotes a payload: %s", s.Name, s.Status.Description)
		}
		for _, a := range s.Attributes {
			if strings.Contains(a.Value.Emit(), secret) {
				t.Errorf("%s quotes a payload: %s", s.Name, a.Key)
			}
		}
	}
}

func wantChildren(t *testing.T, parent trace.SpanContext, children tracetest.SpanStubs) {
	t.Helper()
	for _, s := range children {
		if s.Parent.SpanID() != parent.SpanID() {
			t.Errorf("%s is the child of %v, want %v", s.Name, s.Parent.SpanID(), parent.SpanID())
		}
	}
}

func wantStatus(t *testing.T, s tracetest.SpanStub, code codes.Code, description string) {
	t.Helper()
	if s.Status.Code != code || s.Status.Description != description || attr(s, "error.type") != description {
		t.Errorf("%s has the status %+v with %v, want %v %q", s.Name, s.Status, s.Attributes, code, description)
	}
}

func (tr *trial) requeueAll() {
	tr.Helper()
	letters := tr.letters()
	if len(letters) == 0 {
		tr.Fatal("there are no dead letters")
	}
	for _, l := range letters {
		tr.requeue(l)
	}
}

// TestTraceOfForeignRow: a row without a context gets that of its first send, which later
// attempts and the handler go on with.
//
//test:sessions
func TestTraceOfForeignRow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := newTraced(t)
		stop := tr.begin("")
		if err := tr.store.InsertRaw("orders", "", "", "{}"); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		stop()
		sent, processed := tr.named("send orders"), tr.named("process orders")
		if len(sent) != 1 || len(processed) != 1 || sent[0].Parent.IsValid() || sent[0].SpanKind != trace.SpanKindProducer {
			t.Fatalf("spans: %+v", tr.spans.GetSpans())
		}
		wantChildren(t, sent[0].SpanContext, processed)
	})
}

// TestOpenTelemetryMetrics are those of the conventions.
//
//test:sessions
func TestOpenTelemetryMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := newTraced(t)
		stop := tr.begin("order")
		tr.enqueue(waybill.Message{ID: "order", Topic: "orders"})
		pass(time.Minute)
		stop()
		var all metricdata.ResourceMetrics
		if err := tr.metrics.Collect(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		counts := make(map[string]int64)
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				count(counts, m)
			}
		}
		want := map[string]int64{
			"messaging.client.operation.duration enqueue ":                   1,
			"messaging.client.operation.duration send ":                      1,
			"messaging.client.operation.duration send transient":             1,
			"messaging.client.sent.messages send ":                           1,
			"messaging.client.sent.messages send transient":                  1,
			"messaging.client.consumed.messages process permanent: rejected": 1,
			"messaging.process.duration process permanent: rejected":         1,
		}
		for name, n := range want {
			if counts[name] != n {
				t.Errorf("%s = %d, want %d", name, counts[name], n)
			}
			delete(counts, name)
		}
		if len(counts) > 0 {
			t.Errorf("unexpected: %v", counts)
		}
	})
}

func count(counts map[string]int64, m metricdata.Metrics) {
	name := func(set attribute.Set) string {
		op, _ := set.Value("messaging.operation.name")
		failure, _ := set.Value("error.type")
		return m.Name + " " + op.AsString() + " " + failure.AsString()
	}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			counts[name(p.Attributes)] += p.Value
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			counts[name(p.Attributes)] += int64(p.Count)
		}
	}
}
