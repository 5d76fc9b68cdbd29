package cloudevents

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/kafkabroker"
	"github.com/waybill-go/waybill/broker/redisbroker"
)

// kafkaBrokers returns the addresses of a cluster, one in this process unless there is another.
func kafkaBrokers(t *testing.T) []string {
	t.Helper()
	if brokers := os.Getenv("KAFKA_BROKERS"); brokers != "" {
		return strings.Split(brokers, ",")
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	must(t, err)
	t.Cleanup(cluster.Close)
	return cluster.ListenAddrs()
}

func TestKafka(t *testing.T) {
	t.Parallel()
	brokers, prefix := kafkaBrokers(t), "waybill-test-"+waybill.NewID()+"-"
	b, err := kafkabroker.Open(t.Context(), kafkabroker.Config{
		URL: "kafka://" + strings.Join(brokers, ","), TopicPrefix: prefix, CreateTopics: true, Partitions: 1, ReplicationFactor: 1,
	})
	must(t, err)
	t.Cleanup(func() { b.Close() })
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(prefix+odd().Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	must(t, err)
	t.Cleanup(client.Close)
	for _, structured := range []bool{false, true} {
		publish(t, b, structured)
		records := client.PollRecords(t.Context(), 1)
		must(t, records.Err())
		record := records.Records()[0]
		headers := make(map[string]string)
		for _, h := range record.Headers {
			headers[h.Key] = string(h.Value)
		}
		expect(t, NewMessage(Kafka, headers, headers["content-type"], record.Value), structured)
	}

	expectStructured(t, b, "reader", func(contentType string, body []byte) {
		must(t, client.ProduceSync(t.Context(), &kgo.Record{
			Topic: prefix + odd().Topic, Value: body, Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte(contentType)}},
		}).FirstErr())
	})
}

func TestRedis(t *testing.T) {
	t.Parallel()
	address, prefix := env("REDIS_URL", "redis://127.0.0.1:6379/0"), "waybill-test-"+waybill.NewID()+":"
	b, err := redisbroker.Open(t.Context(), redisbroker.Config{URL: address, Prefix: prefix})
	must(t, err)
	t.Cleanup(func() { b.Close() })
	options, err := redis.ParseURL(address)
	must(t, err)
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	stream := prefix + "{topic:" + odd().Topic + "}"
	t.Cleanup(func() { client.Del(context.Background(), stream) })
	must(t, client.XGroupCreateMkStream(t.Context(), stream, "sdk", "0").Err())
	for i, structured := range []bool{false, true} {
		publish(t, b, structured)
		entries, err := client.XRange(t.Context(), stream, "-", "+").Result()
		must(t, err)
		headers := make(map[string]string)
		for name, value := range entries[i].Values {
			headers[name] = fmt.Sprint(value)
		}
		expect(t, NewMessage(Redis, headers, headers["content-type"], []byte(headers["data"])), structured)
	}
	expectStructured(t, b, "reader", func(contentType string, body []byte) {
		must(t, client.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, Values: []any{"content-type", contentType, "data", body}}).Err())
	})
}
