package otelobserve

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/waybill-go/waybill"
)

// carrier is the trace context of a message as the W3C propagator reads and writes it.
type carrier struct{ m *waybill.Message }

var _ propagation.TextMapCarrier = carrier{}

// Get implements [propagation.TextMapCarrier].
func (c carrier) Get(key string) string {
	switch key {
	case "traceparent":
		return c.m.TraceParent
	case "tracestate":
		return c.m.TraceState
	}
	return ""
}

// Set implements [propagation.TextMapCarrier]. A tracestate longer than a message may hold is
// dropped, as the standard allows.
func (c carrier) Set(key, value string) {
	switch {
	case key == "traceparent":
		c.m.TraceParent = value
	case key == "tracestate" && len(value) <= waybill.MaxTraceLen:
		c.m.TraceState = value
	}
}

// Keys implements [propagation.TextMapCarrier].
func (c carrier) Keys() []string { return []string{"traceparent", "tracestate"} }

// contextOf returns the trace context of a message, which is not valid if it has none.
func contextOf(m *waybill.Message) trace.SpanContext {
	if m.TraceParent == "" {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), carrier{m})
	return trace.SpanContextFromContext(ctx)
}

// store stores a trace context in a message that has none.
func store(m *waybill.Message, sc trace.SpanContext) {
	if m.TraceParent == "" && sc.IsValid() {
		propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), sc), carrier{m})
	}
}
