package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill/internal/ownserver"
)

// TestCluster_NATS takes one of three NATS servers away at a time; the stream has three replicas.
func TestCluster_NATS(t *testing.T) {
	ports := ownserver.FreePorts(t, 6)
	clients, routes := ports[:3], ports[3:]
	var nodes []*ownserver.Server
	for i, port := range clients {
		nodes = append(nodes, ownserver.New(t, "", "", func(dir string) *exec.Cmd {
			return exec.Command("nats-server", "-a", "127.0.0.1", "-p", port, "-js", "-sd", filepath.Join(dir, "data"), "-n", "n"+port,
				"--cluster_name", "waybill", "--cluster", "nats://127.0.0.1:"+routes[i], "--routes", eachPort("nats://127.0.0.1:%s", routes))
		}))
	}
	b := brokerSettings{
		Kind: "nats", Name: fmt.Sprintf("e2e%08x", rand.Uint32()), URL: eachPort("nats://127.0.0.1:%s", clients), Replicas: len(nodes),
	}
	c := cluster{hurt: hurtAny(nodes), mend: mendAll(t, nodes, func() error {
		for _, port := range clients {
			if err := b.wholeAt(t.Context(), "nats://127.0.0.1:"+port); err != nil {
				return err
			}
		}
		return nil
	})}
	c.mend()
	c.tellOf(t, plainWorld(t), b)
}

// wholeAt returns an error unless a server knows of a leader, and every replica of the stream and its consumers, if there is
// one, has everything.
func (s brokerSettings) wholeAt(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 900*time.Millisecond) // a server without a leader says nothing, and is asked again
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
