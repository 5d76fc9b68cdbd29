package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill/internal/testtools/ownserver"
)

// rabbitRestart is for how long a node may be alone before it is restarted, as an operator would: one that was excluded while it
// stood still may hang as it stops.
const rabbitRestart = time.Minute

// TestCluster_RabbitMQ takes one of three nodes away at a time; the queue is a quorum queue on all of them.
//
//test:cluster
func TestCluster_RabbitMQ(t *testing.T) {
	n := newRabbitCluster(t)
	n.tell(t, cluster{hurt: hurtAny(n.nodes), mend: func() {}})
}

// TestCluster_RabbitMQPartition cuts one of three nodes off from the other two, while clients still reach it. By pause_minority it ends what
// it serves; the queue goes on with the others.
//
//test:cluster
func TestCluster_RabbitMQPartition(t *testing.T) {
	n := newRabbitCluster(t)
	n.tell(t, cluster{hurt: func(rng *rand.Rand) string {
		n.cutOff(t, rng.IntN(len(n.nodes)))
		return "node cut off"
	}, mend: func() { n.join(t) }})
}

// TestCluster_RabbitMQDiskFull lets one node take its disk for full, so that the cluster takes no messages: they wait in the
// outbox, and none becomes a dead letter.
//
//test:cluster
func TestCluster_RabbitMQDiskFull(t *testing.T) {
	n := newRabbitCluster(t)
	full := 0
	set := func(on bool) {
		t.Helper()
		if err := ownserver.RabbitDiskFull(n.nodes[full], on); err != nil {
			t.Fatal(err)
		}
	}
	n.tell(t, cluster{waits: true, hurt: func(rng *rand.Rand) string {
		full = rng.IntN(len(n.nodes))
		set(true)
		return "disk full"
	}, mend: func() { set(false) }})
}

// rabbitCluster are three nodes of RabbitMQ, each reached at a port.
type rabbitCluster struct {
	nodes []*ownserver.Server
	ports []string
	since time.Time // the cluster is not whole; zero if it is
}

func newRabbitCluster(t *testing.T) *rabbitCluster {
	t.Helper()
	free := ownserver.FreePorts(t, 6)
	n := &rabbitCluster{ports: free[:3]}
	var each []ownserver.RabbitPorts
	for i, port := range n.ports {
		each = append(each, ownserver.RabbitPorts{Clients: port, Nodes: free[3+i]})
	}
	n.nodes = ownserver.NewRabbitMQ(t, make([]string, len(each)), each)
	return n
}

// tell runs a system over the cluster, which is hurt as c says, and whole again after c.mend. One that is to wait is fixed when some hundred
// orders wait.
func (n *rabbitCluster) tell(t *testing.T, c cluster) {
	t.Helper()
	w, whole := plainWorld(t), mendAll(t, n.nodes, n.whole)
	hurt, mend := c.hurt, c.mend
	if c.waits {
		c.hurt = func(rng *rand.Rand) string {
			what := hurt(rng)
			w.takesMore(t)
			return what
		}
	}
	c.mend = func() {
		mend()
		whole()
	}
	whole()
	c.tellOf(t, w, brokerSettings{
		Kind: "rabbit", Name: fmt.Sprintf("e2e%08x", rand.Uint32()), URL: eachPort("amqp://guest:guest@127.0.0.1:%s/", n.ports),
	})
}

// whole returns why the nodes do not all work with each other. One that is alone for long is restarted.
func (n *rabbitCluster) whole() (err error) {
	restart := !n.since.IsZero() && time.Since(n.since) > rabbitRestart
	for i, port := range n.ports {
		members, e := rabbitMembers(n.nodes[i], port)
		if e != nil || members != len(n.nodes) {
			err = errors.Join(err, fmt.Errorf("node %d works with %d nodes: %v", i, members, e))
		}
		if members < 2 && restart {
			n.nodes[i].Kill()
			n.nodes[i].Back()
		}
	}
	switch {
	case err == nil:
		n.since = time.Time{}
	case n.since.IsZero() || restart:
		n.since = time.Now()
	}
	return err
}

// cutOff lets nothing lead between a node and the others.
func (n *rabbitCluster) cutOff(t *testing.T, at int) {
	t.Helper()
	for i, node := range n.nodes {
		others := []string{n.ports[at]}
		if i == at {
			others = slices.Delete(slices.Clone(n.ports), at, at+1)
		}
		if err := ownserver.RabbitDisconnect(node, others...); err != nil {
			t.Fatal(err)
		}
	}
}

// join undoes cutOff.
func (n *rabbitCluster) join(t *testing.T) {
	t.Helper()
	for i, node := range n.nodes {
		others := slices.Delete(slices.Clone(n.ports), i, i+1)
		eventually(t, "the node lets others in", func() bool { return ownserver.RabbitReconnect(node, others...) == nil })
	}
}

// rabbitMembers returns how many nodes one works with, itself among them, if it takes connections. After it was away it does
// so before it works with the others again.
func rabbitMembers(node *ownserver.Server, port string) (int, error) {
	conn, err := amqp.DialConfig("amqp://guest:guest@127.0.0.1:"+port+"/", amqp.Config{Dial: amqp.DefaultDial(unreached)})
	if err != nil {
		return 0, err
	}
	conn.Close()
	return ownserver.RabbitMembers(node)
}
