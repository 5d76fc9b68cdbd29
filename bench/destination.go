package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

// Kinds of destinations.
const (
	toNothing = "nothing"
	toNATS    = "NATS JetStream"
	toRabbit  = "RabbitMQ, classic queue"
	toQuorum  = "RabbitMQ, quorum queue"
	toRedis   = "Redis Streams" // of adapters only: no backlog is drained to it
)

// topic is what every message is published to.
const topic = "orders"

// destination is where messages go: a separate stream, or exchange with one queue.
type destination struct{ Kind, URL, Name string }

func (b *bench) destination(kind string) destination {
	switch kind {
	case toNATS:
		return destination{Kind: kind, URL: b.nats}
	case toRabbit, toQuorum:
		return destination{Kind: kind, URL: b.rabbit}
	case toRedis:
		return destination{Kind: kind, URL: b.redis}
	}
	return destination{Kind: kind}
}

// publisher is what a drained backlog was published to.
type publisher struct {
	contract.Publisher
	taken func() int64 // its own count; nil if its broker counts
	close func()
}

// open connects and creates the stream, or the exchange and the queue, unless they exist:
// RabbitMQ would confirm unroutable messages.
func (d destination) open(ctx context.Context) (*publisher, error) {
	switch d.Kind {
	case toNATS:
		b, err := d.openNATS(ctx)
		if err != nil {
			return nil, err
		}
		return &publisher{Publisher: b.Publisher(), close: func() { b.Close() }}, nil
	case toRabbit, toQuorum:
		return d.openRabbit(ctx)
	}
	n := &nothing{}
	return &publisher{Publisher: n, taken: n.taken.Load, close: func() {}}, nil
}

func (d destination) openNATS(ctx context.Context) (*natsbroker.Broker, error) {
	return natsbroker.Open(ctx, natsbroker.Config{URL: d.URL, Stream: d.Name, SubjectPrefix: d.Name + "."})
}

func (d destination) openRabbit(ctx context.Context) (*publisher, error) {
	queue := rabbitbroker.ClassicQueue
	if d.Kind == toQuorum {
		queue = rabbitbroker.QuorumQueue
	}
	b, err := rabbitbroker.Open(ctx, rabbitbroker.Config{URL: d.URL, Exchange: d.Name, QueueType: queue})
	if err != nil {
		return nil, err
	}
	if err := b.Declare(ctx, consumer.Subscription{Group: d.Name, Topics: []string{topic}}); err != nil {
		b.Close()
		return nil, err
	}
	return &publisher{Publisher: b.Publisher(), close: func() { b.Close() }}, nil
}

// nothing is a publisher that accepts everything.
type nothing struct{ taken atomic.Int64 }

func (n *nothing) Send(_ context.Context, msgs []contract.Outgoing) func() []error {
	n.taken.Add(int64(len(msgs)))
	return func() []error { return make([]error, len(msgs)) }
}

// stored returns how many messages the broker says that it holds. RabbitMQ's count lags
// behind its confirmations, so it is asked until it has reached want, for at most 10 s.
func (d destination) stored(ctx context.Context, want int) (n int, err error) {
	ask := d.askNATS
	if d.Kind != toNATS {
		ask = d.askRabbit
	}
	for range 100 {
		if n, err = ask(ctx); err != nil || n >= want {
			return n, err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return n, nil
}

func (d destination) askNATS(ctx context.Context) (n int, _ error) {
	return n, d.onNATS(func(_ *nats.Conn, js jetstream.JetStream) error {
		stream, err := js.Stream(ctx, d.Name)
		if err == nil {
			n = int(stream.CachedInfo().State.Msgs)
		}
		return err
	})
}

func (d destination) askRabbit(context.Context) (n int, _ error) {
	return n, d.onRabbit(func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(d.Name, true, false, false, false, nil)
		n = q.Messages
		return err
	})
}

// remove deletes the stream, or the queue and the exchange. It may fail: it may not exist,
// and leftovers have a unique name and are found by the next run.
func (d destination) remove() {
	switch d.Kind {
	case toNATS:
		_ = d.onNATS(func(_ *nats.Conn, js jetstream.JetStream) error { return js.DeleteStream(context.Background(), d.Name) })
	case toRabbit, toQuorum:
		_ = d.onRabbit(func(ch *amqp.Channel) error {
			_, err := ch.QueueDelete(d.Name, false, false, false)
			return err
		})
		_ = d.onRabbit(func(ch *amqp.Channel) error { return ch.ExchangeDelete(d.Name, false, false) })
	case toRedis:
		if o, err := redis.ParseURL(d.URL); err == nil {
			client := redis.NewClient(o)
			defer client.Close()
			client.Del(context.Background(), streamOf(d.Name), streamOf(d.Name)+":waiting:"+d.Name)
		}
	}
}

func (d destination) version() (v string, err error) {
	if d.Kind == toNATS {
		return v, d.onNATS(func(c *nats.Conn, _ jetstream.JetStream) error {
			v = c.ConnectedServerVersion()
			return nil
		})
	}
	conn, err := amqp.Dial(d.URL)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	v, _, _ = strings.Cut(fmt.Sprint(conn.Properties["version"]), "+")
	return v, nil
}

func (d destination) onNATS(do func(*nats.Conn, jetstream.JetStream) error) error {
	conn, err := nats.Connect(d.URL)
	if err != nil {
		return fmt.Errorf("NATS: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	return do(conn, js)
}

func (d destination) onRabbit(do func(*amqp.Channel) error) error {
	conn, err := amqp.Dial(d.URL)
	if err != nil {
		return fmt.Errorf("RabbitMQ: %w", err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	return do(ch)
}
