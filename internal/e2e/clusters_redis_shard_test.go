package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/redisbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/relay"
)

// TestCluster_RedisShardAway kills a master of a Cluster and its replica. The topics of the other masters go on: they are
// published, received and acknowledged. Those of the dead one wait for it.
//
//test:cluster
func TestCluster_RedisShardAway(t *testing.T) {
	r := newRedisCluster(t, "cluster-require-full-coverage no")
	w, settings := plainWorld(t), r.settings(0)
	r.declare(t, settings)
	b := r.open(settings.redis())
	w.startRelay(t, b.Publisher(), relay.Config{})
	for _, topic := range settings.topics() {
		sub := from(b, consumer.Subscription{Group: settings.group("billing"), Topics: []string{topic}})
		w.startConsumer(t, sub, w.effectHandler("billing"), consumer.Config{})
	}
	away, others := settings.topics()[1], "('orders', 'invoices')"
	held := hold(t, b, away)
	w.enqueueRound(t, settings, "before", 10)
	w.awaitEffectsOf(t, "('orders', 'returns', 'invoices')")
	first := held()
	shard := r.shardOf(topicStream(settings, away))
	for _, port := range shard {
		r.nodes[port].Kill()
	}

	must(t, first.Ack(t.Context())) // is repeated until the shard is back
	w.enqueueRound(t, settings, "during", 1000)
	w.awaitEffectsOf(t, others)
	client := r.client().(*redis.ClusterClient)
	defer client.Close()
	for _, topic := range []string{"orders", "invoices"} {
		eventually(t, "what "+topic+" delivered is acknowledged", func() bool {
			pending, err := client.XPending(t.Context(), topicStream(settings, topic), settings.group("billing")).Result()
			return err == nil && pending.Count == 0
		})
	}
	if n := w.number(t, "SELECT count(*) FROM "+w.table("messages")+" WHERE topic = $1 AND status <> 'Published'", away); n != 1000 {
		t.Errorf("%d messages of the dead master's topic wait, want 1000", n)
	}
	for _, port := range shard {
		r.nodes[port].Back()
	}
	w.awaitEffectsOf(t, "('orders', 'returns', 'invoices')")
	w.checkNothingElse(t)
}

func topicStream(s brokerSettings, topic string) string { return s.Name + ":{topic:" + topic + "}" }

// hold subscribes another group, and returns a function that waits for its first delivery, which is not settled.
func hold(t *testing.T, b *redisbroker.Broker, topic string) func() contract.Delivery {
	t.Helper()
	got := make(chan contract.Delivery, 1000)
	run(t, t.Context(), func(ctx context.Context) error {
		return b.Subscriber(consumer.Subscription{Group: "holder", Topics: []string{topic}}).Subscribe(ctx, 100, func(d contract.Delivery) { got <- d })
	})
	return func() contract.Delivery { return <-got }
}

// enqueueRound commits n orders of each topic, in turns.
func (w *world) enqueueRound(t *testing.T, s brokerSettings, prefix string, n int) {
	t.Helper()
	w.inTx(t, func(tx pgx.Tx) error {
		for i := range n {
			for _, topic := range s.topics() {
				id := fmt.Sprintf("%s-%s-%d", prefix, topic, i)
				if _, err := tx.Exec(t.Context(), "INSERT INTO "+w.table("orders")+" VALUES ($1)", id); err != nil {
					return err
				}
				if _, err := w.writer.Enqueue(t.Context(), tx, waybill.Message{ID: id, Topic: topic, Key: fmt.Sprint(i % 20), Payload: []byte(`{}`)}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// awaitEffectsOf waits until what was enqueued to some topics has its effect.
func (w *world) awaitEffectsOf(t *testing.T, topics string) {
	t.Helper()
	eventually(t, "orders of "+topics+" have their effect", func() bool {
		return w.number(t, "SELECT count(*) FROM "+w.table("messages")+" m WHERE topic IN "+topics+" AND NOT EXISTS (SELECT 1 FROM "+w.table("effects")+" e WHERE e.message_id = m.id)") == 0
	})
}

// shardOf returns the ports of the master of a key and its replica.
func (r *redisServers) shardOf(key string) []string {
	r.t.Helper()
	client := r.client().(*redis.ClusterClient)
	defer client.Close()
	node, err := client.MasterForKey(r.t.Context(), key)
	must(r.t, err)
	master := node.Options().Addr[strings.LastIndex(node.Options().Addr, ":")+1:]
	return append([]string{master}, r.replicasOf(master)...)
}
