package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	brokers "github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/redisbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/internal/testtools/ownserver"
)

// TestCluster_RedisCluster takes one of the six nodes of a Redis Cluster away at a time. Each master has one replica, which
// must have what counts as published: without it nothing of that master's is.
//
//test:cluster
func TestCluster_RedisCluster(t *testing.T) { newRedisCluster(t).tellOf(t, true) }

// TestCluster_RedisSentinel takes a master, one of its two replicas or one of three Sentinels away at a time. One replica
// must have what counts as published, so everything goes on.
//
//test:cluster
func TestCluster_RedisSentinel(t *testing.T) { newRedisSentinel(t).tellOf(t, false) }

// tellOf also lets masters fail that no replica copies any more, and loses nothing.
func (r *redisServers) tellOf(t *testing.T, waits bool) {
	w, b := plainWorld(t), r.settings(1)
	r.declare(t, b)
	cluster{hurt: func(rng *rand.Rand) string {
		if rng.IntN(3) == 0 {
			return r.loseMaster(w, rng, "SELECT count(*) FROM "+w.table("orders"))
		}
		return r.hurt(rng)
	}, mend: r.mend, waits: waits}.tellOf(t, w, b)
}

// redisServers are masters and replicas, with Sentinels or in a Cluster.
type redisServers struct {
	t         *testing.T
	ports     []string
	nodes     map[string]*ownserver.Server // by port
	masters   int
	url       string
	sentinels []*ownserver.Server
	watching  []string // their ports
	clients   map[string]*redis.Client
	network   *ownserver.Network // nil: all are at 127.0.0.1
}

// redisMaster is the name under which Sentinels watch the master.
const redisMaster = "shop"

// newRedisCluster starts three masters with a replica each.
func newRedisCluster(t *testing.T, settings ...string) *redisServers {
	t.Helper()
	return newRedisClusterOn(t, nil, settings...)
}

// newRedisClusterOn does so on a network.
func newRedisClusterOn(t *testing.T, network *ownserver.Network, settings ...string) *redisServers {
	t.Helper()
	free := ownserver.FreePorts(t, 12)
	r := &redisServers{t: t, ports: free[:6], nodes: make(map[string]*ownserver.Server), masters: 3, clients: make(map[string]*redis.Client), network: network}
	for i, port := range r.ports {
		r.nodes[port] = ownserver.NewRedisNode(t, port, free[6+i], append(r.listen(port), settings...)...)
		r.start(r.nodes[port], port)
	}
	for _, port := range r.ports {
		eventually(t, "the node answers", func() bool { return r.ask(port, "PING").Err() == nil })
	}
	ownserver.JoinRedis(r.nodes[r.ports[0]], r.addrs(r.ports))
	r.url = "redis://" + strings.Replace(strings.Join(r.addrs(r.ports), "&addr="), "&", "?", 1)
	r.mend()
	return r
}

// newRedisSentinel starts a master with two replicas, and three Sentinels.
func newRedisSentinel(t *testing.T, settings ...string) *redisServers {
	t.Helper()
	return newRedisSentinelOn(t, nil, settings...)
}

// newRedisSentinelOn does so on a network.
func newRedisSentinelOn(t *testing.T, network *ownserver.Network, settings ...string) *redisServers {
	t.Helper()
	free := ownserver.FreePorts(t, 6)
	r := &redisServers{
		t: t, ports: free[:3], watching: free[3:], nodes: make(map[string]*ownserver.Server), masters: 1, clients: make(map[string]*redis.Client), network: network,
	}
	master := r.addr(r.ports[0])
	for i, port := range r.ports {
		own := append(r.listen(port), settings...)
		if i > 0 {
			own = append(own, "replicaof "+strings.Replace(master, ":", " ", 1))
		}
		r.nodes[port] = ownserver.NewRedis(t, port, own...)
		r.start(r.nodes[port], port)
	}
	for _, port := range r.watching {
		s := ownserver.NewSentinel(t, port, redisMaster, master, r.listen(port)...)
		r.start(s, port)
		r.sentinels = append(r.sentinels, s)
	}
	r.url = "redis://" + strings.Replace(strings.Join(r.addrs(r.watching), "&addr="), "&", "?master_name="+redisMaster+"&", 1)
	r.mend()
	return r
}

// host is the address of the server or Sentinel with that port.
func (r *redisServers) host(port string) string {
	if r.network == nil {
		return "127.0.0.1"
	}
	return r.network.Addrs[slices.Index(slices.Concat(r.ports, r.watching), port)]
}

func (r *redisServers) addr(port string) string { return r.host(port) + ":" + port }

func (r *redisServers) addrs(ports []string) (list []string) {
	for _, port := range ports {
		list = append(list, r.addr(port))
	}
	return list
}

// listen are the settings by which the server with that port is reached.
func (r *redisServers) listen(port string) []string {
	return []string{"bind " + r.host(port), "protected-mode no"}
}

func (r *redisServers) start(s *ownserver.Server, port string) {
	r.t.Helper()
	if r.network != nil {
		r.network.Place(s, r.host(port))
	}
	s.Start()
}

// settings spread the orders over topics that lie on different masters of a Cluster.
func (r *redisServers) settings(replicas int) brokerSettings {
	return brokerSettings{
		Kind: "redis", Name: fmt.Sprintf("e2e%08x", rand.Uint32()), URL: r.url, Replicas: replicas, Topics: []string{"orders", "returns", "invoices"},
	}
}

// declare makes the streams and their groups.
func (r *redisServers) declare(t *testing.T, b brokerSettings) {
	t.Helper()
	open, err := redisbroker.Open(t.Context(), b.redis())
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	sub := consumer.Subscription{Group: b.group("billing"), Topics: b.topics()}
	if _, err := open.Apply(t.Context(), brokers.Wanted{Topics: sub.Topics, Subscriptions: []consumer.Subscription{sub}}); err != nil {
		t.Fatal(err)
	}
}

// all returns the servers, and the Sentinels if there are some.
func (r *redisServers) all() []*ownserver.Server {
	list := slices.Clone(r.sentinels)
	for _, port := range r.ports {
		list = append(list, r.nodes[port])
	}
	return list
}

// hurt takes a master away, until another server is one in its stead, or any server.
func (r *redisServers) hurt(rng *rand.Rand) string {
	r.t.Helper()
	if rng.IntN(2) == 0 {
		return hurtAny(r.all())(rng)
	}
	before := r.mastersNow()
	what := hurtAny([]*ownserver.Server{r.nodes[before[rng.IntN(len(before))]]})(rng)
	r.awaitFailover(before)
	return what + ", a master"
}

// awaitFailover waits until there is another master than there were.
func (r *redisServers) awaitFailover(before []string) {
	r.t.Helper()
	eventually(r.t, "a replica becomes a master", func() bool {
		return slices.ContainsFunc(r.mastersNow(), func(port string) bool { return !slices.Contains(before, port) })
	})
}

// ask sends one command to one server.
func (r *redisServers) ask(port string, args ...any) *redis.Cmd {
	client := r.clients[port]
	if client == nil {
		client = redis.NewClient(&redis.Options{Addr: r.addr(port), MaxRetries: -1, ReadTimeout: time.Second, DialTimeout: time.Second})
		r.clients[port] = client
		r.t.Cleanup(func() { client.Close() })
	}
	return client.Do(context.WithoutCancel(r.t.Context()), args...)
}

// mend brings all servers back, lets them do all again that loseMaster forbids, and returns when every replica has all that
// its master has.
func (r *redisServers) mend() {
	r.t.Helper()
	for _, port := range r.ports {
		r.nodes[port].Back()
		eventually(r.t, "the server takes commands", func() bool { return r.ask(port, "ACL", "SETUSER", "default", "+@all").Err() == nil })
	}
	mendAll(r.t, r.all(), func() error {
		if err := r.inStep(); err != nil {
			return err
		}
		for _, port := range r.watching {
			if err := r.sentinelIsWell(port); err != nil {
				return err
			}
		}
		return nil
	})()
}

// role is what a server answers to ROLE.
type role struct {
	master string // the port of its master; "" for a master itself
	offset int64
	copies bool // a replica that is connected
}

func (r *redisServers) role(port string) (role, error) {
	list, err := r.ask(port, "ROLE").Slice()
	switch {
	case err != nil:
		return role{}, err
	case len(list) == 3 && list[0] == "master":
		return role{offset: list[1].(int64)}, nil
	case len(list) == 5 && list[0] == "slave":
		return role{master: fmt.Sprint(list[2]), copies: list[3] == "connected", offset: list[4].(int64)}, nil
	}
	return role{}, fmt.Errorf("%s has the role %v", port, list)
}

// inStep returns an error unless there are as many masters as there should be, and the others have what these have.
func (r *redisServers) inStep() error {
	offsets := make(map[string]int64)
	for _, port := range r.ports {
		now, err := r.role(port)
		if err != nil {
			return err
		}
		if now.master == "" {
			offsets[port] = now.offset
		}
		if r.watching != nil {
			continue
		}
		if nodes, err := r.ask(port, "CLUSTER", "NODES").Text(); err != nil || strings.Contains(nodes, "fail") || strings.Contains(nodes, "handshake") {
			return fmt.Errorf("%s sees %s, %w", port, nodes, err)
		}
		if info, err := r.ask(port, "CLUSTER", "INFO").Text(); err != nil || !strings.Contains(info, "cluster_state:ok") {
			return fmt.Errorf("%s says %s, %w", port, info, err)
		}
	}
	if len(offsets) != r.masters {
		return fmt.Errorf("masters and their offsets: %v, want %d", offsets, r.masters)
	}
	for _, port := range r.ports {
		now, err := r.role(port)
		if err != nil {
			return err
		}
		if least, known := offsets[now.master]; now.master != "" && (!known || !now.copies || now.offset < least) {
			return fmt.Errorf("%s is %+v, the masters have %v", port, now, offsets)
		}
	}
	return nil
}

// sentinelIsWell returns an error unless a Sentinel sees everybody, and would take part in a failover.
func (r *redisServers) sentinelIsWell(port string) error {
	info, err := r.ask(port, "INFO", "sentinel").Text()
	if want := fmt.Sprintf("status=ok,address=%s,slaves=2,sentinels=3", strings.Join(r.addrs(r.mastersNow()), ",")); err != nil || !strings.Contains(info, "sentinel_tilt:0\r\n") || !strings.Contains(info, want) {
		return fmt.Errorf("Sentinel %s says %s, %w, want %s", port, info, err, want)
	}
	replicas, err := r.ask(port, "SENTINEL", "REPLICAS", redisMaster).Slice()
	if err != nil {
		return err
	}
	for _, one := range replicas {
		if text := fmt.Sprint(one); !strings.Contains(text, "flags:slave ") && !strings.Contains(text, "flags slave ") {
			return fmt.Errorf("Sentinel %s says of a replica: %s", port, text)
		}
	}
	return nil
}

// mastersNow returns the ports of the servers that answer and take themselves for masters.
func (r *redisServers) mastersNow() (list []string) {
	for _, port := range r.ports {
		if now, err := r.role(port); err == nil && now.master == "" {
			list = append(list, port)
		}
	}
	return list
}

// replicasOf returns the ports of a master's replicas.
func (r *redisServers) replicasOf(master string) (list []string) {
	for _, port := range r.ports {
		if now, err := r.role(port); err == nil && now.master == master {
			list = append(list, port)
		}
	}
	return list
}
