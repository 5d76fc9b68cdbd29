package otelobserve

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/request"
)

// Config configures an [Observer].
type Config struct {
	// System is the value of messaging.system, the name of the broker in the conventions, such as
	// "rabbitmq". Optional; the default is "waybill".
	System string

	// TracerProvider creates the spans. Optional; the default is the global one.
	TracerProvider trace.TracerProvider

	// MeterProvider creates the metrics. Optional; the default is the global one.
	MeterProvider metric.MeterProvider

	// ErrorTexts adds the text of errors to the status of spans. It may quote what handlers
	// worked on.
	ErrorTexts bool

	// DisableEnqueueSpans creates no span for an enqueue: messages then carry the context of the span
	// that is active when they are enqueued.
	DisableEnqueueSpans bool
}

const scope = "github.com/waybill-go/waybill/observe/otelobserve"

// Observer records spans and metrics. It is safe for concurrent use.
type Observer struct {
	cfg     Config
	tracer  trace.Tracer
	metrics *instruments
}

var _ observe.Observer = (*Observer)(nil)

// New returns an observer. The error is that of the meter provider.
func New(cfg Config) (*Observer, error) {
	if cfg.System == "" {
		cfg.System = "waybill"
	}
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = otel.GetTracerProvider()
	}
	if cfg.MeterProvider == nil {
		cfg.MeterProvider = otel.GetMeterProvider()
	}
	metrics, err := newInstruments(cfg.MeterProvider.Meter(scope))
	if err != nil {
		return nil, fmt.Errorf("make instruments: %w", err)
	}
	return &Observer{cfg: cfg, tracer: cfg.TracerProvider.Tracer(scope), metrics: metrics}, nil
}

// Observe implements [observe.Observer]. It does nothing: everything is recorded by Start.
func (o *Observer) Observe(context.Context, observe.Event) {}

// operation is the name and type of an operation in the conventions.
type operation struct {
	name string // messaging.operation.name
	typ  string // messaging.operation.type
	kind trace.SpanKind
}

var operations = map[observe.Op]operation{
	observe.OpEnqueue: {"enqueue", "create", trace.SpanKindProducer},
	observe.OpPublish: {"send", "send", trace.SpanKindClient},
	observe.OpHandle:  {"process", "process", trace.SpanKindConsumer},
}

// Start implements [observe.Observer].
func (o *Observer) Start(ctx context.Context, op observe.Op, msgs ...*waybill.Message) (context.Context, func(error)) {
	if op == observe.OpServe && len(msgs) == 1 {
		return o.serve(ctx, msgs[0])
	}
	what, ok := operations[op]
	if !ok || len(msgs) == 0 {
		return ctx, func(error) {}
	}
	began := time.Now()
	inner := ctx
	spans := make([]trace.Span, len(msgs))
	for i, m := range msgs {
		var of context.Context
		of, spans[i] = o.span(ctx, op, what, m)
		if len(msgs) == 1 {
			inner = of
		}
	}
	notes := notesOf(msgs)
	return inner, func(err error) {
		for i, s := range spans {
			o.end(s, errorOf(err, i))
		}
		o.metrics.record(ctx, o.cfg.System, op, what, notes, time.Since(began), err)
	}
}

// span starts the span of one message, and stores its context in the message if that has none.
func (o *Observer) span(ctx context.Context, op observe.Op, what operation, m *waybill.Message) (context.Context, trace.Span) {
	created := contextOf(m)
	var links []trace.Link
	if op == observe.OpEnqueue {
		if o.cfg.DisableEnqueueSpans || created.IsValid() {
			store(m, trace.SpanContextFromContext(ctx))
			return ctx, nil
		}
	} else if created.IsValid() {
		links = append(links, trace.Link{SpanContext: created})
		if ambient := trace.SpanContextFromContext(ctx); ambient.IsValid() {
			links = append(links, trace.Link{SpanContext: ambient})
		}
		ctx = trace.ContextWithRemoteSpanContext(ctx, created)
	} else if op == observe.OpPublish {
		what.kind = trace.SpanKindProducer // its context is the one that consumers get
	}
	ctx, s := o.tracer.Start(ctx, what.name+" "+request.Label(m.Address()),
		trace.WithSpanKind(what.kind), trace.WithLinks(links...), trace.WithAttributes(o.attributes(ctx, op, what, m)...))
	if op != observe.OpHandle {
		store(m, s.SpanContext())
	}
	return ctx, s
}

func (o *Observer) attributes(ctx context.Context, op observe.Op, what operation, m *waybill.Message) []attribute.KeyValue {
	attrs := append(make([]attribute.KeyValue, 0, 8),
		attribute.String("messaging.system", o.cfg.System),
		attribute.String("messaging.operation.name", what.name),
		attribute.String("messaging.operation.type", what.typ),
		attribute.String("messaging.destination.name", m.Address()),
		attribute.String("messaging.message.id", m.ID),
		attribute.String("waybill.message.type", m.Type),
	)
	if m.CorrelationID != "" {
		attrs = append(attrs, attribute.String("messaging.message.conversation_id", m.CorrelationID))
	}
	switch name := observe.NameFrom(ctx); {
	case name == "":
	case op == observe.OpHandle:
		attrs = append(attrs, attribute.String("messaging.consumer.group.name", name))
	case op == observe.OpPublish:
		attrs = append(attrs, attribute.String("messaging.client.id", name))
	}
	return attrs
}

func (o *Observer) end(s trace.Span, err error) {
	if s == nil {
		return
	}
	if err != nil {
		o.fail(s, err)
	}
	s.End()
}
