package e2e

import (
	"net/http/httptest"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/waybill-go/waybill/inboxhttp"
	"github.com/waybill-go/waybill/observe/otelobserve"
	"github.com/waybill-go/waybill/store/memstore"
)

// TestInboxServiceTrace: a request is part of the trace that it names, or of one of its own.
func TestInboxServiceTrace(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	observer, err := otelobserve.New(otelobserve.Config{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))})
	if err != nil {
		t.Fatal(err)
	}
	server, err := inboxhttp.NewServer(memstore.New(), inboxhttp.Config{Observer: observer})
	if err != nil {
		t.Fatal(err)
	}
	for _, parent := range []string{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "nonsense"} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/inbox/k", nil)
		r.Header.Set("traceparent", parent)
		server.ServeHTTP(httptest.NewRecorder(), r)
	}
	got := spans.GetSpans()
	if len(got) != 2 || got[0].Name != "inbox read" || got[0].SpanKind != trace.SpanKindServer {
		t.Fatalf("spans are %+v", got)
	}
	if got[0].SpanContext.TraceID().String() != "4bf92f3577b34da6a3ce929d0e0e4736" || got[0].Parent.SpanID().String() != "00f067aa0ba902b7" {
		t.Errorf("the span is %v below %v", got[0].SpanContext, got[0].Parent)
	}
	if got[1].Parent.IsValid() || got[1].SpanContext.TraceID() == got[0].SpanContext.TraceID() {
		t.Errorf("the span of a request without a trace is below %v", got[1].Parent)
	}
}
