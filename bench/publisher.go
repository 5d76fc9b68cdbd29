package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/relay"
)

// target is a publisher, and what its broker says that it holds.
type target struct {
	relay.Publisher
	stored func(ctx context.Context) (int, error)
	close  func()
}

func (w *world) publisher(ctx context.Context, to string) (*target, error) {
	switch to {
	case "nats":
		return w.toNATS(ctx)
	case "rabbitmq":
		return w.toRabbit(ctx)
	}
	n := &nothing{}
	return &target{n, func(context.Context) (int, error) { return int(n.taken.Load()), nil }, func() {}}, nil
}

// nothing is a publisher that takes everything.
type nothing struct{ taken atomic.Int64 }

func (n *nothing) Send(_ context.Context, msgs []relay.Outgoing) func() []error {
	n.taken.Add(int64(len(msgs)))
	return func() []error { return make([]error, len(msgs)) }
}

func (w *world) toNATS(ctx context.Context) (*target, error) {
	b, err := natsbroker.Open(ctx, natsbroker.Config{URL: w.nats, Stream: w.name, SubjectPrefix: w.name + "."})
	if err != nil {
		return nil, err
	}
	conn, err := nats.Connect(w.nats)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	stored := func(ctx context.Context) (int, error) {
		stream, err := js.Stream(ctx, w.name)
		if err != nil {
			return 0, err
		}
		return int(stream.CachedInfo().State.Msgs), nil
	}
	return &target{b.Publisher(), stored, func() {
		_ = js.DeleteStream(context.Background(), w.name) // best effort: it has a name of its own
		conn.Close()
		b.Close()
	}}, nil
}

func (w *world) toRabbit(ctx context.Context) (*target, error) {
	b, err := rabbitbroker.Open(ctx, rabbitbroker.Config{URL: w.rabbit, Exchange: w.name})
	if err != nil {
		return nil, err
	}
	// Without a queue RabbitMQ would confirm, and return, what it cannot route.
	if err := b.Declare(ctx, consumer.Subscription{Group: w.name, Topics: []string{"orders"}}); err != nil {
		return nil, err
	}
	conn, err := amqp.Dial(w.rabbit)
	if err != nil {
		return nil, err
	}
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	stored := func(context.Context) (int, error) {
		q, err := ch.QueueDeclarePassive(w.name, true, false, false, false, nil)
		if err != nil {
			return 0, fmt.Errorf("count messages: %w", err)
		}
		return q.Messages, nil
	}
	return &target{b.Publisher(), stored, func() {
		_, _ = ch.QueueDelete(w.name, false, false, false) // best effort, as above
		_ = ch.ExchangeDelete(w.name, false, false)
		conn.Close()
		b.Close()
	}}, nil
}
