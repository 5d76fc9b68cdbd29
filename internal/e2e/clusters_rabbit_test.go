package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill/internal/ownserver"
)

// TestCluster_RabbitMQ takes one of three nodes away at a time; the queue is a quorum queue on all of them.
func TestCluster_RabbitMQ(t *testing.T) {
	free := ownserver.FreePorts(t, 6)
	ports := free[:3]
	var each []ownserver.RabbitPorts
	for i, port := range ports {
		each = append(each, ownserver.RabbitPorts{Clients: port, Nodes: free[3+i]})
	}
	nodes := ownserver.NewRabbitMQ(t, make([]string, len(each)), each)
	whole := func() error {
		for _, port := range ports {
			conn, err := amqp.Dial("amqp://guest:guest@127.0.0.1:" + port + "/")
			if err != nil {
				return err
			}
			conn.Close()
		}
		return nil
	}
	c := cluster{hurt: hurtAny(nodes), mend: mendAll(t, nodes, whole)}
	c.mend()
	b := brokerSettings{Kind: "rabbit", Name: fmt.Sprintf("e2e%08x", rand.Uint32()), URL: eachPort("amqp://guest:guest@127.0.0.1:%s/", ports)}
	c.tellOf(t, plainWorld(t), b)
}
