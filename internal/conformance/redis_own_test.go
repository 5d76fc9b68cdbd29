package conformance

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/testtools/ownserver"
)

// redisChild is a redis-server of the test's own, so that it may be killed and misconfigured.
type redisChild struct {
	t     *testing.T
	port  string
	dir   string
	args  []string
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has
}

func newRedisChild(t *testing.T) *redisChild {
	t.Helper()
	return tryRedisChildren(t, func() []string { return nil })
}

// newRedisNode starts a node that belongs to no Cluster yet.
func newRedisNode(t *testing.T) *redisChild {
	t.Helper()
	return tryRedisChildren(t, func() []string {
		return []string{"--cluster-enabled", "yes", "--cluster-port", ownserver.FreePorts(t, 1)[0]}
	})
}

// tryRedisChildren starts servers until one has a port that nobody took before it did.
func tryRedisChildren(t *testing.T, args func() []string) *redisChild {
	t.Helper()
	for range 5 {
		c := &redisChild{t: t, port: ownserver.FreePorts(t, 1)[0], dir: t.TempDir(), args: args()}
		if c.start() {
			return c
		}
	}
	t.Fatal("the test's own redis-server ends as soon as it is started")
	return nil
}

func (c *redisChild) addr() string { return "127.0.0.1:" + c.port }

// client returns a client that reports the first error instead of trying again.
func (c *redisChild) client() *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: c.addr(), MaxRetries: -1})
	c.t.Cleanup(func() { client.Close() })
	return client
}

// start runs the server until kill, and waits until it is seen to be this very process. It
// returns false if the server ends instead.
func (c *redisChild) start() bool {
	c.t.Helper()
	c.cmd = exec.Command("redis-server", append([]string{
		"--bind", "127.0.0.1", "--port", c.port, "--dir", c.dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always",
		"--repl-diskless-sync-delay", "0", // a replica need not wait for others
	}, c.args...)...)
	if err := c.cmd.Start(); err != nil {
		c.t.Fatalf("no redis-server to start (%v); install it with: make services", err)
	}
	cmd, ended := c.cmd, make(chan struct{})
	c.ended = ended
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is killed in the end
	}()
	c.t.Cleanup(c.kill)
	client, runs := c.client(), false
	waitFor(c.t, "the test's own redis-server answers", func() bool {
		info, err := client.Info(context.Background(), "server").Result()
		runs = err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", c.cmd.Process.Pid))
		return runs || c.hasEnded()
	})
	return runs
}

func (c *redisChild) hasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// kill ends the process without a chance to say so. It may be repeated.
func (c *redisChild) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.ended
}

// newRedisCluster returns a client of a Cluster of the test's own, with three masters that share
// the slots.
func newRedisCluster(t *testing.T) *redis.ClusterClient {
	t.Helper()
	const masters, slots = 3, 16384
	var addrs []string
	for i := range masters {
		c := newRedisNode(t)
		client, ctx := c.client(), context.Background()
		must(t, client.ClusterAddSlotsRange(ctx, i*slots/masters, (i+1)*slots/masters-1).Err())
		must(t, client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
		if i > 0 {
			meet(t, client, addrs[0])
		}
		addrs = append(addrs, c.addr())
	}
	for _, addr := range addrs {
		awaitCluster(t, addr, masters)
	}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { cluster.Close() })
	return cluster
}

// meet joins the node of client to that at addr.
func meet(t *testing.T, client *redis.Client, addr string) {
	t.Helper()
	host, port, _ := strings.Cut(addr, ":")
	other := redis.NewClient(&redis.Options{Addr: addr})
	defer other.Close()
	nodes, err := other.ClusterNodes(context.Background()).Result()
	must(t, err)
	_, bus, _ := strings.Cut(strings.Fields(nodes)[1], "@") // ID HOST:PORT@BUS ...
	bus, _, _ = strings.Cut(bus, ",")
	must(t, client.Do(context.Background(), "CLUSTER", "MEET", host, port, bus).Err())
}

// awaitCluster waits until the node at addr serves all slots and knows all masters.
func awaitCluster(t *testing.T, addr string, masters int) {
	t.Helper()
	node := redis.NewClient(&redis.Options{Addr: addr})
	defer node.Close()
	waitFor(t, "the test's own Redis Cluster is complete", func() bool {
		info, err := node.ClusterInfo(context.Background()).Result()
		return err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_size:%d", masters))
	})
}

// redisPrefix returns a prefix for the keys of one test, which are removed when it ends.
func redisPrefix(t *testing.T, client redis.UniversalClient) string {
	t.Helper()
	prefix := "test:" + waybill.NewID() + ":"
	t.Cleanup(func() {
		must(t, eachRedisKey(client, prefix, func(c *redis.Client, key string) error {
			return c.Del(context.Background(), key).Err()
		}))
	})
	return prefix
}

// eachRedisKey calls fn with each key that begins with prefix, and with its master.
func eachRedisKey(client redis.UniversalClient, prefix string, fn func(*redis.Client, string) error) error {
	scan := func(ctx context.Context, master *redis.Client) error {
		keys := master.Scan(ctx, 0, prefix+"*", 1000).Iterator()
		for keys.Next(ctx) {
			if err := fn(master, keys.Val()); err != nil {
				return err
			}
		}
		return keys.Err()
	}
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(context.Background(), scan)
	}
	return scan(context.Background(), client.(*redis.Client))
}
