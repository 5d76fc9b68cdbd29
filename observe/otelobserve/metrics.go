package otelobserve

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/request"
)

// durations are the bucket bounds, in seconds, that the conventions require.
var durations = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}

// instruments are the metrics that the conventions have for messaging clients.
type instruments struct {
	operation metric.Float64Histogram
	process   metric.Float64Histogram
	sent      metric.Int64Counter
	consumed  metric.Int64Counter
}

func newInstruments(m metric.Meter) (*instruments, error) {
	var in instruments
	var err [4]error
	in.operation, err[0] = m.Float64Histogram("messaging.client.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of an enqueue, or of sending a batch to the broker."), metric.WithExplicitBucketBoundaries(durations...))
	in.process, err[1] = m.Float64Histogram("messaging.process.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of a handler."), metric.WithExplicitBucketBoundaries(durations...))
	in.sent, err[2] = m.Int64Counter("messaging.client.sent.messages", metric.WithUnit("{message}"),
		metric.WithDescription("Messages that relays tried to send to the broker."))
	in.consumed, err[3] = m.Int64Counter("messaging.client.consumed.messages", metric.WithUnit("{message}"),
		metric.WithDescription("Messages that handlers were called with."))
	for _, e := range err {
		if e != nil {
			return nil, e
		}
	}
	return &in, nil
}

// notesOf returns the address of each message, one for all reply destinations. Messages belong to the operation
// and must not be read when it has ended.
func notesOf(msgs []*waybill.Message) []string {
	topics := make([]string, len(msgs))
	for i, m := range msgs {
		topics[i] = request.Label(m.Address())
	}
	return topics
}

// group is what is counted together.
type group struct{ topic, failure string }

// record counts the messages of an operation, by topic and kind of failure, and the duration
// once for each of these.
func (in *instruments) record(ctx context.Context, system string, op observe.Op, what operation, topics []string, took time.Duration, err error) {
	groups := make(map[group]int64, 1)
	for i, topic := range topics {
		failure := ""
		if e := errorOf(err, i); e != nil {
			failure = errorType(e)
		}
		groups[group{topic, failure}]++
	}
	for g, n := range groups {
		attrs := []attribute.KeyValue{
			attribute.String("messaging.system", system),
			attribute.String("messaging.operation.name", what.name),
			attribute.String("messaging.operation.type", what.typ),
			attribute.String("messaging.destination.name", g.topic),
		}
		if g.failure != "" {
			attrs = append(attrs, attribute.String("error.type", g.failure))
		}
		if op == observe.OpHandle {
			attrs = append(attrs, attribute.String("messaging.consumer.group.name", observe.NameFrom(ctx)))
		}
		in.add(ctx, op, n, took, metric.WithAttributeSet(attribute.NewSet(attrs...)))
	}
}

func (in *instruments) add(ctx context.Context, op observe.Op, n int64, took time.Duration, with metric.MeasurementOption) {
	switch op {
	case observe.OpHandle:
		in.process.Record(ctx, took.Seconds(), with)
		in.consumed.Add(ctx, n, with)
	case observe.OpPublish:
		in.operation.Record(ctx, took.Seconds(), with)
		in.sent.Add(ctx, n, with)
	default:
		in.operation.Record(ctx, took.Seconds(), with)
	}
}
