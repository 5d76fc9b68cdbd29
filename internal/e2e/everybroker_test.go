package e2e

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	brokers "github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/asbbroker"
	"github.com/waybill-go/waybill/broker/kafkabroker"
	"github.com/waybill-go/waybill/broker/redisbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/testtools/sbfake"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/relay"
)

// lapse is how soon other brokers than RabbitMQ and NATS give what a killed process held to another
// one: about the least that the adapters allow.
const lapse = 16 * time.Second

// otherBrokers start, or find, brokers on which the stories about each kind of crash are not told
// one by one.
var otherBrokers = map[string]func(t *testing.T) (brokerSettings, brokers.Broker){
	"redis":       redisStreams,
	"kafka":       kafkaCluster,
	"service bus": serviceBus,
}

func redisStreams(t *testing.T) (brokerSettings, brokers.Broker) {
	s := newBroker(t, "redis")
	s.URL = redisURL()
	t.Cleanup(func() { forgetKeys(t, s.URL, s.Name+":*") })
	b, err := redisbroker.Open(t.Context(), s.redis())
	return s, opened(t, b, err)
}

func (s brokerSettings) redis() redisbroker.Config {
	return redisbroker.Config{URL: s.URL, Prefix: s.Name + ":", ClaimAfter: lapse, Replicas: s.Replicas}
}

func forgetKeys(t *testing.T, url, pattern string) {
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Error(err)
		return
	}
	client := redis.NewClient(o)
	defer client.Close()
	ctx := context.WithoutCancel(t.Context())
	keys := client.Scan(ctx, 0, pattern, 1000).Iterator()
	for keys.Next(ctx) {
		client.Del(ctx, keys.Val())
	}
	if err := keys.Err(); err != nil {
		t.Errorf("remove keys: %v", err)
	}
}

func kafkaCluster(t *testing.T) (brokerSettings, brokers.Broker) { return kafkaOf(t, 3) }

// kafkaOf starts a cluster of n brokers.
func kafkaOf(t *testing.T, n int) (brokerSettings, brokers.Broker) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(n))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	s := newBroker(t, "kafka")
	s.URL = "kafka://" + strings.Join(cluster.ListenAddrs(), ",")
	b, err := kafkabroker.Open(t.Context(), s.kafka())
	return s, opened(t, b, err)
}

func (s brokerSettings) kafka() kafkabroker.Config {
	cfg := kafkabroker.Config{
		URL: s.URL, TopicPrefix: s.Name + ".", CreateTopics: true, Partitions: 3, CommitInterval: 100 * time.Millisecond,
		TransactionalID: s.TransactionalID,
		Options:         []kgo.Opt{kgo.SessionTimeout(6 * time.Second), kgo.HeartbeatInterval(time.Second)},
	}
	if s.dial != "" { // brokers say where they are
		cfg.Options = append(cfg.Options, kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.dial)
		}))
	}
	return cfg
}

func serviceBus(t *testing.T) (brokerSettings, brokers.Broker) {
	fake, err := sbfake.Start(sbfake.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	s := newBroker(t, "service bus")
	s.URL, s.declare = "servicebus://test:c2VjcmV0@"+fake.Addr()+"?emulator=true", fake.HTTPClient()
	b, err := asbbroker.Open(t.Context(), s.serviceBus())
	return s, opened(t, b, err)
}

// serviceBus declares entities by a client; a child, which has none, finds them declared.
func (s brokerSettings) serviceBus() asbbroker.Config {
	return asbbroker.Config{URL: s.URL, LockDuration: lapse, HTTPClient: s.declare, DeclareNothing: s.declare == nil}
}

func opened(t *testing.T, b brokers.Broker, err error) brokers.Broker {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close broker: %v", err)
		}
	})
	return b
}

// TestOtherBrokers is the whole way on each of the brokers: of many orders, a relay is killed
// between confirm and settlement and a consumer between commit and acknowledgement. Nothing is
// lost, copies are skipped, and each message has its effect once.
func TestOtherBrokers(t *testing.T) {
	t.Parallel()
	const orders = 60
	for kind, start := range otherBrokers {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := plainWorld(t)
			s, b := start(t)
			sub := consumer.Subscription{Group: s.group("billing"), Topics: []string{"orders"}}
			if _, err := b.(brokers.Topology).Apply(t.Context(), brokers.Wanted{Topics: sub.Topics, Subscriptions: []consumer.Subscription{sub}}); err != nil {
				t.Fatal(err)
			}
			msgs := numbered("m", "orders", orders)
			for i := range msgs {
				msgs[i].Key = msgs[i].ID[len(msgs[i].ID)-1:]
			}
			w.enqueue(t, msgs...)

			publisher := w.startChild(t, child{Role: "relay", Broker: s, Halt: atSettle})
			publisher.wait(t, atSettle)
			publisher.kill()
			handler := w.startChild(t, child{Role: "consumer", Broker: s, Halt: atBeforeAck})
			handler.wait(t, atBeforeAck)
			handler.kill()
			if n := w.number(t, "SELECT count(*) FROM "+w.table("effects")); n == 0 {
				t.Fatal("the killed consumer has committed nothing")
			}

			ops := newOpCounter()
			w.startRelay(t, b.Publisher(), relay.Config{})
			w.startConsumer(t, from(b, sub), w.effectHandler("billing"), consumer.Config{Observer: ops})
			for _, m := range msgs {
				w.waitStatus(t, m.ID, inspect.Published)
				w.waitEffects(t, "billing", m.ID, 1)
			}
			eventually(t, "copies are skipped", func() bool { return ops.count(observe.OpDuplicate) > 0 })
			if n := w.number(t, "SELECT count(*) FROM "+w.table("effects")); n != orders {
				t.Errorf("%d effects of %d orders", n, orders)
			}
			w.everyIDOnce(t, orders)
		})
	}
}
