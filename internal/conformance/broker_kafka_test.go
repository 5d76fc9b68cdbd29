package conformance

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/brokertest"
	"github.com/waybill-go/waybill/broker/kafkabroker"
)

// TestKafkaBroker runs the suite against the cluster that KAFKA_BROKERS names, host:port,host:port,
// or against a server in this process that speaks Kafka's protocol.
func TestKafkaBroker(t *testing.T) {
	url := kafkaURL(t)
	cfg := kafkaConfig(url)
	brokertest.Run(t, brokertest.Harness{
		Name:       "kafka",
		Features:   brokertest.Features{MaxPayload: waybill.MaxPayloadLen, Partitioned: true, Repeats: true},
		Unroutable: "no such topic",
		Open:       func(t *testing.T) broker.Broker { return kafkaOpen(t, cfg) },
		Faulty:     kafkaFaulty(cfg),
		PublishRaw: func(t *testing.T, topic string, payload []byte, attributes map[string]string) {
			t.Helper()
			kafkaPublishRaw(t, cfg, topic, payload, attributes)
		},
		Goroutines: []string{"github.com/twmb/franz-go/pkg/kgo"},
	})
	t.Parallel() // once goroutines were counted
}

// kafkaFaulty returns how to reach a cluster of one broker through a proxy, nil if there are more:
// the proxy stands before one.
func kafkaFaulty(cfg kafkabroker.Config) func(*testing.T) (brokertest.Faults, func() broker.Broker) {
	if strings.Contains(cfg.URL, ",") {
		return nil
	}
	return func(t *testing.T) (brokertest.Faults, func() broker.Broker) {
		through, proxy := kafkaThroughProxy(t, cfg)
		return proxy, func() broker.Broker { return kafkaOpen(t, through) }
	}
}

// kafkaURL returns the address of a cluster.
func kafkaURL(t *testing.T) string {
	t.Helper()
	if brokers := os.Getenv("KAFKA_BROKERS"); brokers != "" {
		return "kafka://" + brokers
	}
	return kafkaClusterURL(kafkaCluster(t))
}

// kafkaCluster starts one broker in this process.
func kafkaCluster(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster
}

func kafkaClusterURL(cluster *kfake.Cluster) string {
	return "kafka://" + strings.Join(cluster.ListenAddrs(), ",")
}

// kafkaConfig returns the configuration of topics that are this test's own, of one partition: the
// suite expects the order of publishing whatever the key.
func kafkaConfig(url string) kafkabroker.Config {
	return kafkabroker.Config{
		URL:            url,
		TopicPrefix:    "waybill-test-" + strings.ToLower(waybill.NewID()[20:]) + ".",
		CreateTopics:   true,
		Partitions:     1,
		CommitInterval: 100 * time.Millisecond,
	}
}

func kafkaOpen(t *testing.T, cfg kafkabroker.Config) *kafkabroker.Broker {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	b, err := kafkabroker.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// kafkaClient returns a client of the library.
func kafkaClient(t *testing.T, cfg kafkabroker.Config, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	seeds := strings.Split(strings.TrimPrefix(cfg.URL, "kafka://"), ",")
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(seeds...)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func kafkaPublishRaw(t *testing.T, cfg kafkabroker.Config, topic string, payload []byte, attributes map[string]string) {
	t.Helper()
	r := &kgo.Record{Topic: cfg.TopicPrefix + topic, Value: payload}
	for name, value := range attributes {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "ce_" + name, Value: []byte(value)})
	}
	if err := kafkaClient(t, cfg).ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
}
