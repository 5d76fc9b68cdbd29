package e2e

import (
	"math/rand/v2"
	"testing"

	"github.com/redis/go-redis/v9"
)

// TestCluster_RedisSlotsMove moves the streams of a Cluster from one master to another. While one is between them its old
// master sends clients away (ASK), and either refuses what concerns keys that may be at the other (TRYAGAIN).
//
//test:cluster
func TestCluster_RedisSlotsMove(t *testing.T) {
	r := newRedisCluster(t)
	w, b := plainWorld(t), r.settings(1)
	r.declare(t, b)
	var end func()
	cluster{waits: true, hurt: func(rng *rand.Rand) string {
		end = r.beginMove(topicStream(b, b.topics()[rng.IntN(len(b.topics()))]), rng)
		taken := "SELECT count(*) FROM " + w.table("orders")
		least := w.number(t, taken) + lostEach
		eventually(t, "orders are taken", func() bool { return w.number(t, taken) >= least })
		return "stream between two masters"
	}, mend: func() {
		end()
		r.mend()
	}}.tellOf(t, w, b)
}

// beginMove takes the keys of a slot to another master, and returns what gives it the slot as well.
func (r *redisServers) beginMove(key string, rng *rand.Rand) (end func()) {
	r.t.Helper()
	client := r.client().(*redis.ClusterClient)
	defer client.Close()
	slot, err := client.ClusterKeySlot(r.t.Context(), key).Result()
	must(r.t, err)
	masters := r.mastersNow()
	from := r.shardOf(key)[0]
	to := from
	for to == from {
		to = masters[rng.IntN(len(masters))]
	}
	ids := make(map[string]string)
	for _, port := range masters {
		ids[port], err = r.ask(port, "CLUSTER", "MYID").Text()
		must(r.t, err)
	}
	must(r.t, r.ask(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[from]).Err())
	must(r.t, r.ask(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[to]).Err())
	keys, err := r.ask(from, "CLUSTER", "GETKEYSINSLOT", slot, 100).Slice()
	must(r.t, err)
	must(r.t, r.ask(from, append([]any{"MIGRATE", "127.0.0.1", to, "", 0, 5000, "KEYS"}, keys...)...).Err())
	return func() {
		for _, port := range []string{to, from} {
			must(r.t, r.ask(port, "CLUSTER", "SETSLOT", slot, "NODE", ids[to]).Err())
		}
	}
}
