package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill/internal/ownserver"
)

// rabbitRestart is for how long a node may be alone before it is restarted, as an operator would: one that was excluded while it
// stood still may hang as it stops.
const rabbitRestart = time.Minute

// TestCluster_RabbitMQ takes one of three nodes away at a time; the queue is a quorum queue on all of them.
func TestCluster_RabbitMQ(t *testing.T) {
	free := ownserver.FreePorts(t, 6)
	ports := free[:3]
	var each []ownserver.RabbitPorts
	for i, port := range ports {
		each = append(each, ownserver.RabbitPorts{Clients: port, Nodes: free[3+i]})
	}
	nodes := ownserver.NewRabbitMQ(t, make([]string, len(each)), each)
	var since time.Time // the cluster is not whole
	whole := func() (err error) {
		restart := !since.IsZero() && time.Since(since) > rabbitRestart
		for i, port := range ports {
			n, e := rabbitMembers(nodes[i], port)
			if e != nil || n != len(nodes) {
				err = errors.Join(err, fmt.Errorf("node %d works with %d nodes: %v", i, n, e))
			}
			if n < 2 && restart {
				nodes[i].Kill()
				nodes[i].Back()
			}
		}
		switch {
		case err == nil:
			since = time.Time{}
		case since.IsZero() || restart:
			since = time.Now()
		}
		return err
	}
	c := cluster{hurt: hurtAny(nodes), mend: mendAll(t, nodes, whole)}
	c.mend()
	b := brokerSettings{Kind: "rabbit", Name: fmt.Sprintf("e2e%08x", rand.Uint32()), URL: eachPort("amqp://guest:guest@127.0.0.1:%s/", ports)}
	c.tellOf(t, plainWorld(t), b)
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
