package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill/broker/asbbroker"
	"github.com/waybill-go/waybill/broker/kafkabroker"
	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/broker/redisbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
)

// broker is what every adapter offers.
type broker interface {
	consumer.Broker
	Publisher() contract.Publisher
	Ping(ctx context.Context) error
	Close() error
}

// brokerSettings say which broker, and which names on it are the story's own.
type brokerSettings struct {
	Kind string // nats, rabbit, or one of otherBrokers
	URL  string
	Name string // stream or exchange

	Replicas        int    // NATS, Redis
	TransactionalID string // Kafka: the exactly-once relay

	Topics []string // of the soak, "orders" unless set

	declare *http.Client // Service Bus: declares entities
	dial    string       // Kafka: a proxy before its only broker
}

func natsURL() string   { return env("NATS_URL", "nats://127.0.0.1:4222") }
func rabbitURL() string { return env("RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:5672/") }

func env(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

// onBrokers runs a story once on each real broker; in a kind of session other than the plain one,
// which concerns the database alone, on one of them.
func onBrokers(t *testing.T, story func(t *testing.T, w *world, b brokerSettings)) {
	t.Parallel()
	kinds := []string{"rabbit", "nats"}
	if inKindOfSession() {
		kinds = kinds[:1]
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			story(t, plainWorld(t), newBroker(t, kind))
		})
	}
}

// topics are those of the soak.
func (s brokerSettings) topics() []string {
	if len(s.Topics) == 0 {
		return []string{"orders"}
	}
	return s.Topics
}

// newBroker reserves names on a broker, removed when the story ends.
func newBroker(t *testing.T, kind string) brokerSettings {
	t.Helper()
	s := brokerSettings{Kind: kind, Name: fmt.Sprintf("e2e%08x", rand.Uint32())}
	switch kind {
	case "nats":
		s.URL = natsURL()
		t.Cleanup(func() { s.deleteStream(t) })
	case "rabbit":
		s.URL = rabbitURL()
		t.Cleanup(func() { s.deleteExchange(t) })
	}
	return s
}

func (s brokerSettings) open(ctx context.Context) (broker, error) {
	switch s.Kind {
	case "nats":
		return natsbroker.Open(ctx, natsbroker.Config{URL: s.URL, Stream: s.Name, SubjectPrefix: s.Name + ".", Replicas: s.Replicas})
	case "redis":
		return redisbroker.Open(ctx, s.redis())
	case "kafka":
		return kafkabroker.Open(ctx, s.kafka())
	case "service bus":
		return asbbroker.Open(ctx, s.serviceBus())
	}
	return rabbitbroker.Open(ctx, rabbitbroker.Config{URL: s.URL, Exchange: s.Name})
}

// connect opens the broker for a story.
func (s brokerSettings) connect(t *testing.T) broker {
	t.Helper()
	b, err := s.open(t.Context())
	if err == nil {
		err = b.Ping(t.Context())
	}
	if err != nil {
		t.Fatalf("open broker (start the servers with `make services`): %v", err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil && !strings.Contains(err.Error(), "closed") {
			t.Errorf("close broker: %v", err)
		}
	})
	return b
}

// group is the name of a consumer group of the story: queue names are global on RabbitMQ.
func (s brokerSettings) group(name string) string { return s.Name + "-" + name }

// source is a subscriber, and what it receives: a broker that has nothing else.
type source struct {
	of  consumer.Subscription
	sub contract.Subscriber
}

func (s source) Subscriber(consumer.Subscription) contract.Subscriber { return s.sub }

// from returns what b has for a consumer.
func from(b consumer.Broker, s consumer.Subscription) source { return source{s, b.Subscriber(s)} }

// toBilling has the consumer billing receive orders from a subscriber.
func toBilling(sub contract.Subscriber) source {
	return source{consumer.Subscription{Group: "billing", Topics: []string{"orders"}}, sub}
}

// subscribe returns the source of a group that receives a topic. On RabbitMQ its queue exists from
// then on; the server removes it with the exchange's other queues when the story ends.
func (s brokerSettings) subscribe(t *testing.T, b broker, name, topic string) source {
	t.Helper()
	if s.Kind == "rabbit" {
		s.declareQueue(t, name, topic)
	}
	return from(b, consumer.Subscription{Group: s.group(name), Topics: []string{topic}})
}

// declareQueue makes a group's queue before its consumer runs, so that nothing is unroutable.
func (s brokerSettings) declareQueue(t *testing.T, name string, topics ...string) {
	t.Helper()
	b, err := rabbitbroker.Open(t.Context(), rabbitbroker.Config{URL: s.URL, Exchange: s.Name})
	if err != nil {
		t.Fatalf("open broker (start the servers with `make services`): %v", err)
	}
	t.Cleanup(func() { s.deleteQueue(t, name) })
	err = b.Declare(t.Context(), consumer.Subscription{Group: s.group(name), Topics: topics})
	if err := errors.Join(err, b.Close()); err != nil {
		t.Fatalf("declare the queue of %s: %v", name, err)
	}
}

func (s brokerSettings) onChannel(t *testing.T, fn func(*amqp.Channel) error) {
	t.Helper()
	first, _, _ := strings.Cut(s.URL, ",") // of a cluster's nodes
	conn, err := amqp.Dial(first)
	if err != nil {
		t.Fatalf("dial RabbitMQ (start the servers with `make services`): %v", err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err == nil {
		err = fn(ch)
	}
	if err != nil {
		t.Errorf("RabbitMQ: %v", err)
	}
}

func (s brokerSettings) deleteExchange(t *testing.T) {
	s.onChannel(t, func(ch *amqp.Channel) error { return ch.ExchangeDelete(s.Name, false, false) })
}

func (s brokerSettings) deleteStream(t *testing.T) {
	s.onStream(t, func(ctx context.Context, js jetstream.JetStream) error {
		err := js.DeleteStream(ctx, s.Name)
		if err == jetstream.ErrStreamNotFound {
			return nil
		}
		return err
	})
}

func (s brokerSettings) onStream(t *testing.T, fn func(ctx context.Context, js jetstream.JetStream) error) {
	t.Helper()
	conn, err := nats.Connect(s.URL)
	if err != nil {
		t.Fatalf("connect to NATS (start the servers with `make services`): %v", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err == nil {
		err = fn(context.Background(), js)
	}
	if err != nil {
		t.Errorf("NATS: %v", err)
	}
}

// stored returns how many messages the broker itself says it holds for a group.
func (s brokerSettings) stored(t *testing.T, name string) int {
	t.Helper()
	n := 0
	if s.Kind == "nats" {
		s.onStream(t, func(ctx context.Context, js jetstream.JetStream) error {
			stream, err := js.Stream(ctx, s.Name)
			if err == nil {
				n = int(stream.CachedInfo().State.Msgs)
			}
			return err
		})
		return n
	}
	s.onChannel(t, func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(s.group(name), true, false, false, false, nil)
		n = q.Messages
		return err
	})
	return n
}

// declareFullQueue makes a queue that refuses every further message.
func (s brokerSettings) declareFullQueue(t *testing.T, name, topic string) {
	t.Helper()
	s.onChannel(t, func(ch *amqp.Channel) error {
		if err := ch.ExchangeDeclare(s.Name, "topic", true, false, false, false, nil); err != nil {
			return err
		}
		limits := amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"}
		if _, err := ch.QueueDeclare(s.group(name), true, false, false, false, limits); err != nil {
			return err
		}
		if err := ch.QueueBind(s.group(name), topic, s.Name, false, nil); err != nil {
			return err
		}
		return ch.PublishWithContext(t.Context(), s.Name, topic, false, false, amqp.Publishing{})
	})
	t.Cleanup(func() {
		s.deleteQueue(t, name)
	})
}

// throughProxy returns the settings for the same broker behind a proxy.
func (s brokerSettings) throughProxy(t *testing.T) (brokerSettings, *faultproxy.Proxy) {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := faultproxy.New(context.WithoutCancel(t.Context()), u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	u.Host = proxy.Addr()
	s.URL, s.dial = u.String(), proxy.Addr()
	return s, proxy
}

// unsettled returns how many messages of a group the broker still keeps for it, by its own
// account. Its consumer must have stopped: RabbitMQ does not count what is delivered.
func (s brokerSettings) unsettled(t *testing.T, name string) int {
	t.Helper()
	if s.Kind == "rabbit" {
		return s.stored(t, name)
	}
	n := 0
	s.onStream(t, func(ctx context.Context, js jetstream.JetStream) error {
		stream, err := js.Stream(ctx, s.Name)
		if err != nil {
			return err
		}
		for info := range stream.ListConsumers(ctx).Info() {
			n += info.NumAckPending + int(info.NumPending)
		}
		return nil
	})
	return n
}

// firstNATSMessage reads the first message of the stream as any NATS client would.
func (s brokerSettings) firstNATSMessage(t *testing.T) (headers map[string]string, payload []byte) {
	t.Helper()
	headers = map[string]string{}
	s.onStream(t, func(ctx context.Context, js jetstream.JetStream) error {
		consumer, err := js.CreateConsumer(ctx, s.Name, jetstream.ConsumerConfig{})
		if err != nil {
			return err
		}
		msg, err := consumer.Next(jetstream.FetchMaxWait(patience))
		if err != nil {
			return err
		}
		for name, values := range msg.Headers() {
			headers[strings.ToLower(name)] = values[0]
		}
		payload = msg.Data()
		return nil
	})
	return headers, payload
}

// deleteQueue removes a group's queue.
func (s brokerSettings) deleteQueue(t *testing.T, name string) {
	t.Helper()
	s.deleteNamedQueue(t, s.group(name))
}

// deleteNamedQueue removes a queue and its retry queues, of which there may be one for each delay.
func (s brokerSettings) deleteNamedQueue(t *testing.T, queue string) {
	t.Helper()
	names := []string{queue}
	for _, ms := range []int{100, 250, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 120_000,
		300_000, 600_000, 1_800_000, 3_600_000, 10_800_000, 43_200_000, 86_400_000} {
		names = append(names, fmt.Sprintf("%s.retry.%d", queue, ms))
	}
	s.onChannel(t, func(ch *amqp.Channel) error {
		for _, name := range names {
			if _, err := ch.QueueDelete(name, false, false, false); err != nil {
				return err
			}
		}
		return nil
	})
}
