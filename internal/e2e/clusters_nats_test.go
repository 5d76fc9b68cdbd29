package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
	"github.com/waybill-go/waybill/internal/testtools/ownserver"
)

// TestCluster_NATS takes one of three NATS servers away at a time; the stream has three replicas.
//
//test:cluster
func TestCluster_NATS(t *testing.T) {
	nodes, clients := newNATSCluster(t, "", "", "")
	b := brokerSettings{
		Kind: "nats", Name: fmt.Sprintf("e2e%08x", rand.Uint32()), URL: eachPort("nats://127.0.0.1:%s", clients), Replicas: len(nodes),
	}
	c := cluster{hurt: hurtAny(nodes), mend: mendAll(t, nodes, func() error { return b.wholeAtEach(t.Context(), clients) })}
	c.mend()
	c.tellOf(t, plainWorld(t), b)
}

// newNATSCluster returns servers that mendAll starts, and their ports. dirs are those of [ownserver.New].
func newNATSCluster(t *testing.T, dirs ...string) (nodes []*ownserver.Server, clients []string) {
	t.Helper()
	ports := ownserver.FreePorts(t, 2*len(dirs))
	clients, routes := ports[:len(dirs)], ports[len(dirs):]
	for i, port := range clients {
		nodes = append(nodes, ownserver.New(t, dirs[i], "", func(dir string) *exec.Cmd {
			return exec.Command("nats-server", "-a", "127.0.0.1", "-p", port, "-js", "-sd", filepath.Join(dir, "data"), "-n", "n"+port,
				"--cluster_name", "waybill", "--cluster", "nats://127.0.0.1:"+routes[i], "--routes", eachPort("nats://127.0.0.1:%s", routes))
		}))
	}
	return nodes, clients
}

// TestCluster_NATSPartition cuts one of three NATS servers off from the other two, while clients still reach it. Those that
// are connected to it wait; nothing that it could not store on a second server counts as published.
//
//test:cluster
func TestCluster_NATSPartition(t *testing.T) {
	ports := ownserver.FreePorts(t, 6)
	n := natsPartition{clients: ports[:3], ways: make(map[[2]int]*faultproxy.Proxy)}
	for from := range n.clients {
		for to, port := range ports[3:] {
			n.ways[[2]int{from, to}] = newProxy(t, "127.0.0.1:"+port)
		}
	}
	var nodes []*ownserver.Server
	for i, port := range n.clients {
		deaf := newProxy(t, "127.0.0.1:"+port) // where others look for it that have learned of it from others
		deaf.Refuse(true)
		var routes []string
		for to := range n.clients {
			if to != i {
				routes = append(routes, "nats://"+n.ways[[2]int{i, to}].Addr())
			}
		}
		nodes = append(nodes, ownserver.New(t, "", "", func(dir string) *exec.Cmd {
			return exec.Command("nats-server", "-a", "127.0.0.1", "-p", port, "-js", "-sd", filepath.Join(dir, "data"), "-n", "n"+port,
				"--cluster_name", "waybill", "--cluster", "nats://127.0.0.1:"+ports[3+i], "--cluster_advertise", deaf.Addr(), "--routes", strings.Join(routes, ","))
		}))
	}
	w, b := plainWorld(t), brokerSettings{
		Kind: "nats", Name: fmt.Sprintf("e2e%08x", rand.Uint32()), URL: eachPort("nats://127.0.0.1:%s", n.clients), Replicas: len(nodes),
	}
	whole := mendAll(t, nodes, func() error { return b.wholeAtEach(t.Context(), n.clients) })
	c := cluster{waits: true, hurt: func(rng *rand.Rand) string {
		n.cutOff(rng.IntN(len(nodes)), true)
		w.takesMore(t)
		return "server cut off"
	}, mend: func() {
		for i := range nodes {
			n.cutOff(i, false)
		}
		whole()
	}}
	c.mend()
	c.tellOf(t, w, b)
}

// natsPartition are servers and the ways by which each reaches the others.
type natsPartition struct {
	clients []string
	ways    map[[2]int]*faultproxy.Proxy
}

// cutOff ends, or allows, what leads from and to one server.
func (n natsPartition) cutOff(server int, off bool) {
	for way, proxy := range n.ways {
		if way[0] == server || way[1] == server {
			proxy.Refuse(off)
			if off {
				proxy.Cut()
			}
		}
	}
}

func newProxy(t *testing.T, addr string) *faultproxy.Proxy {
	t.Helper()
	p, err := faultproxy.New(context.WithoutCancel(t.Context()), addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// wholeAtEach is wholeAt for several servers.
func (s brokerSettings) wholeAtEach(ctx context.Context, ports []string) error {
	for _, port := range ports {
		if err := s.wholeAt(ctx, "nats://127.0.0.1:"+port); err != nil {
			return err
		}
	}
	return nil
}

// wholeAt returns an error unless a server knows of a leader, and every replica of the stream and its consumers, if there is
// one, has everything.
func (s brokerSettings) wholeAt(ctx context.Context, url string) error {
	return withJetStream(ctx, url, func(ctx context.Context, js jetstream.JetStream) error {
		stream, err := js.Stream(ctx, s.Name)
		if err == jetstream.ErrStreamNotFound {
			return nil
		}
		if err != nil {
			return err
		}
		if err := wholeReplicas(stream.CachedInfo().Cluster); err != nil {
			return err
		}
		list := stream.ListConsumers(ctx)
		for info := range list.Info() {
			if err := wholeReplicas(info.Cluster); err != nil {
				return err
			}
		}
		return list.Err()
	})
}

// withJetStream runs fn if JetStream of a server answers.
func withJetStream(ctx context.Context, url string, fn func(ctx context.Context, js jetstream.JetStream) error) error {
	ctx, cancel := context.WithTimeout(ctx, 900*time.Millisecond) // a server that hangs, or has no leader, says nothing, and is asked again
	defer cancel()
	conn, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	if _, err := js.AccountInfo(ctx); err != nil {
		return err
	}
	return fn(ctx, js)
}

func wholeReplicas(c *jetstream.ClusterInfo) error {
	if c == nil || c.Leader == "" {
		return fmt.Errorf("no leader: %+v", c)
	}
	for _, r := range c.Replicas {
		if !r.Current || r.Offline {
			return fmt.Errorf("replica %+v", *r)
		}
	}
	return nil
}
