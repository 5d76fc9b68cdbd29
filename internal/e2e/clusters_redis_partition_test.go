package e2e

import (
	"math/rand/v2"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/redisbroker"
	"github.com/waybill-go/waybill/internal/testtools/ownserver"
)

// TestCluster_RedisSentinelPartition cuts a master off from its replicas and the Sentinels, while clients still reach it. What it
// takes then is on no replica, and does not count as published. Everything goes on with its successor. If a Sentinel is on
// its side, clients that ask that one stay with the old master, and wait.
//
//test:cluster
func TestCluster_RedisSentinelPartition(t *testing.T) {
	r := newRedisSentinelOn(t, ownserver.NewNetwork(t, 6))
	w, b := plainWorld(t), r.settings(1)
	r.declare(t, b)
	cluster{waits: true, hurt: func(rng *rand.Rand) string {
		if rng.IntN(2) == 0 {
			r.cutOff(rng, r.watching[rng.IntN(len(r.watching))])
			w.takesMore(t)
			return "master cut off, with a Sentinel"
		}
		r.cutOff(rng)
		w.goesOn(t, len(b.topics()))
		return "master cut off"
	}, mend: r.join}.tellOf(t, w, b)
}

// TestCluster_RedisClusterPartition cuts a master of a Cluster off from the other nodes, while clients still reach it. What is for
// it waits: its successor, which was its only replica, has none.
//
//test:cluster
func TestCluster_RedisClusterPartition(t *testing.T) {
	r := newRedisClusterOn(t, ownserver.NewNetwork(t, 6))
	w, b := plainWorld(t), r.settings(1)
	r.declare(t, b)
	cluster{waits: true, hurt: func(rng *rand.Rand) string {
		r.cutOff(rng)
		w.takesMore(t)
		return "master cut off"
	}, mend: r.join}.tellOf(t, w, b)
}

// cutOff leaves a master without the others, but for some, until there is another one in its stead. Clients reach both.
func (r *redisServers) cutOff(rng *rand.Rand, with ...string) {
	r.t.Helper()
	before := r.mastersNow()
	port := before[rng.IntN(len(before))]
	r.network.CutOff(r.hostsOf(append(with, port))...)
	r.awaitFailover(before)
	eventually(r.t, "the old master answers clients, as a master", func() bool {
		now, err := r.role(port)
		return err == nil && now.master == ""
	})
}

// join undoes cutOff.
func (r *redisServers) join() {
	r.t.Helper()
	r.network.Join()
	r.mend()
}

// TestCluster_RedisPartitionLosses publishes to a master that is cut off, alone or together with a replica, and that loses it all in the end.
// Nothing of that counts as published if Replicas is the number of all replicas. With fewer it does, if that number is on its side.
//
//test:cluster
func TestCluster_RedisPartitionLosses(t *testing.T) {
	r := newRedisSentinelOn(t, ownserver.NewNetwork(t, 6))
	for replicas := range 2 {
		settings := r.settings(0)
		r.declare(t, settings)
		old := r.mastersNow()[0]
		cfg := settings.redis()
		cfg.URL = "redis://" + r.addr(old)
		var publishers []*redisbroker.Broker // by their Replicas
		for cfg.Replicas = range 3 {
			publishers = append(publishers, r.open(cfg))
		}
		must(t, publishIDs(t, publishers[2], "orders", "before"))

		r.network.CutOff(r.hostsOf(append(r.replicasOf(old)[:replicas], old))...)
		r.awaitFailover([]string{old})
		for needed, b := range publishers {
			err := publishIDs(t, b, "orders", "lost")
			if needed <= replicas && err != nil || needed > replicas && !waybill.IsUnavailable(err) {
				t.Errorf("with %d replicas on its side the old master answers %v to a publisher that needs %d", replicas, err, needed)
			}
		}
		r.join()
		client := r.client()
		defer client.Close()
		entries, err := client.XRange(t.Context(), topicStream(settings, "orders"), "-", "+").Result()
		if err != nil || len(entries) != 1 || entries[0].Values["ce_id"] != "before" {
			t.Errorf("the stream holds %v, %v, want what was published before", entries, err)
		}
	}
}

func (r *redisServers) hostsOf(ports []string) (list []string) {
	for _, port := range ports {
		list = append(list, r.host(port))
	}
	return list
}
