package otelobserve

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/waybill-go/waybill"
)

// serve starts the span of a request to the inbox service, in the trace of the request.
func (o *Observer) serve(ctx context.Context, request *waybill.Message) (context.Context, func(error)) {
	if caller := contextOf(request); caller.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, caller)
	}
	ctx, s := o.tracer.Start(ctx, "inbox "+request.Type, trace.WithSpanKind(trace.SpanKindServer))
	return ctx, func(err error) { o.end(s, err) }
}
