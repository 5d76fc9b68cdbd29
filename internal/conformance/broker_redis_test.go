package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/brokertest"
	"github.com/waybill-go/waybill/broker/redisbroker"
)

var (
	_ broker.Broker    = (*redisbroker.Broker)(nil)
	_ broker.Topology  = (*redisbroker.Broker)(nil)
	_ broker.Explainer = (*redisbroker.Broker)(nil)
)

// redisClaimAfter is near the least that redisbroker allows.
const redisClaimAfter = 16 * time.Second

func TestRedisBroker(t *testing.T) {
	client := newRedis(t)
	cfg := redisbroker.Config{URL: redisURL(), Prefix: redisPrefix(t, client), ClaimAfter: redisClaimAfter}
	runRedisBroker(t, client, cfg, func(t *testing.T) (brokertest.Faults, func() broker.Broker) {
		through, proxy := redisThroughProxy(t, cfg)
		return proxy, func() broker.Broker { return openRedisBroker(t, through) }
	})
}

//test:long
func TestRedisBroker_Cluster(t *testing.T) {
	cluster := newRedisCluster(t)
	runRedisBroker(t, cluster, redisbroker.Config{Options: &redis.UniversalOptions{Addrs: cluster.Options().Addrs}, ClaimAfter: redisClaimAfter}, nil)
}

// runRedisBroker runs the suite. faulty may be nil: no proxy stands before a whole cluster.
func runRedisBroker(t *testing.T, client redis.UniversalClient, cfg redisbroker.Config, faulty func(*testing.T) (brokertest.Faults, func() broker.Broker)) {
	brokertest.Run(t, brokertest.Harness{
		Name: "redis",
		Features: brokertest.Features{
			MaxPayload: waybill.MaxPayloadLen,
			LapseAfter: redisClaimAfter,
			Repeats:    true,
		},
		Open: func(t *testing.T) broker.Broker { return openRedisBroker(t, cfg) },
		Patient: func(t *testing.T) broker.Broker {
			patient := cfg
			patient.ClaimAfter = time.Hour
			return openRedisBroker(t, patient)
		},
		Faulty: faulty,
		PublishRaw: func(t *testing.T, topic string, payload []byte, attributes map[string]string) {
			t.Helper()
			fields := []any{"data", payload}
			for name, value := range attributes {
				fields = append(fields, "ce_"+name, value)
			}
			must(t, client.XAdd(t.Context(), &redis.XAddArgs{Stream: redisTopic(cfg, topic), Values: fields}).Err())
		},
		Goroutines: []string{"github.com/redis/go-redis"},
	})
	t.Parallel() // once goroutines were counted
}

// redisTopic is the stream of a topic.
func redisTopic(cfg redisbroker.Config, topic string) string {
	if cfg.Prefix == "" {
		return "waybill:{topic:" + topic + "}"
	}
	return cfg.Prefix + "{topic:" + topic + "}"
}

func openRedisBroker(t *testing.T, cfg redisbroker.Config) *redisbroker.Broker {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	b, err := redisbroker.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}
