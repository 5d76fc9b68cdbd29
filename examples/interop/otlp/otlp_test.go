// Package otlp decodes what Waybill's exporter of spans sends with the types that OpenTelemetry generates from
// OTLP's definition. It is a module of its own, so that Waybill does not depend on these.
package otlp

import (
	"encoding/base64"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	api "go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/waybill-go/waybill/internal/otlp"
)

// ids are what OTLP writes in hexadecimal digits, where the JSON mapping of Protocol Buffers has base64.
var ids = regexp.MustCompile(`"(traceId|spanId|parentSpanId)":"([0-9a-f]+)"`)

// export returns what a collector is sent for two spans, the second of them below the first.
func export(t *testing.T) *collector.ExportTraceServiceRequest {
	t.Helper()
	sent := make(chan []byte, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		sent <- body
	}))
	t.Cleanup(s.Close)
	provider, stop, err := otlp.Start(func(name string) string {
		return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": s.URL}[name]
	}, "shop", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	tracer := provider.Tracer("scope", api.WithInstrumentationVersion("v1"))
	ctx, outer := tracer.Start(t.Context(), "send", api.WithSpanKind(api.SpanKindClient), api.WithAttributes(
		attribute.String("s", "x"), attribute.Bool("b", true), attribute.Int64("i", -1<<63), attribute.Float64("f", 0.5),
		attribute.StringSlice("ss", []string{"x"}), attribute.Int64Slice("is", []int64{1}), attribute.Float64Slice("fs", []float64{1}), attribute.BoolSlice("bs", []bool{true})))
	_, inner := tracer.Start(ctx, "process", api.WithLinks(api.Link{SpanContext: outer.SpanContext(), Attributes: []attribute.KeyValue{attribute.Int("n", 1)}}))
	inner.AddEvent("event", api.WithAttributes(attribute.Int("n", 2)))
	inner.SetStatus(codes.Error, "unavailable")
	inner.End()
	outer.End()
	stop()
	body := ids.ReplaceAllFunc(<-sent, func(match []byte) []byte {
		parts := ids.FindSubmatch(match)
		id, err := hex.DecodeString(string(parts[2]))
		if err != nil {
			t.Error(err)
		}
		return []byte(`"` + string(parts[1]) + `":"` + base64.StdEncoding.EncodeToString(id) + `"`)
	})
	var request collector.ExportTraceServiceRequest
	if err := protojson.Unmarshal(body, &request); err != nil { // which refuses fields that it does not know
		t.Fatalf("%v: %s", err, body)
	}
	return &request
}

func TestExport(t *testing.T) {
	t.Parallel()
	of := export(t).GetResourceSpans()[0]
	spans := of.GetScopeSpans()[0].GetSpans()
	if len(spans) != 2 {
		t.Fatalf("the spans are %v", spans)
	}
	inner, outer := spans[0], spans[1]
	if string(inner.GetParentSpanId()) != string(outer.GetSpanId()) || len(inner.GetTraceId()) != 16 || string(inner.GetLinks()[0].GetSpanId()) != string(outer.GetSpanId()) {
		t.Errorf("%v is not below %v", inner, outer)
	}
	if outer.GetKind() != trace.Span_SPAN_KIND_CLIENT || inner.GetKind() != trace.Span_SPAN_KIND_INTERNAL {
		t.Errorf("the kinds are %v and %v", outer.GetKind(), inner.GetKind())
	}
	if s := inner.GetStatus(); s.GetCode() != trace.Status_STATUS_CODE_ERROR || s.GetMessage() != "unavailable" {
		t.Errorf("the status is %v", s)
	}
	if a := outer.GetAttributes(); len(a) != 8 || a[2].GetValue().GetIntValue() != -1<<63 || a[3].GetValue().GetDoubleValue() != 0.5 || a[4].GetValue().GetArrayValue().GetValues()[0].GetStringValue() != "x" {
		t.Errorf("the attributes are %v", a)
	}
	if inner.GetEvents()[0].GetName() != "event" || outer.GetStartTimeUnixNano() == 0 || outer.GetEndTimeUnixNano() < outer.GetStartTimeUnixNano() {
		t.Errorf("%v lacks an event or times", inner)
	}
	if s := of.GetScopeSpans()[0].GetScope(); s.GetName() != "scope" || s.GetVersion() != "v1" {
		t.Errorf("the scope is %v", s)
	}
}
