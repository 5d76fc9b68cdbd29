package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill/internal/ownserver"
)

// TestCluster_RabbitMQ takes one of three nodes away at a time; the queue is a quorum queue on all of them.
func TestCluster_RabbitMQ(t *testing.T) {
	free := ownserver.FreePorts(t, 6)
	ports, between := free[:3], free[3:]
	var conf strings.Builder
	conf.WriteString("cluster_formation.peer_discovery_backend = classic_config\ncluster_partition_handling = pause_minority\n")
	for i, port := range ports {
		fmt.Fprintf(&conf, "cluster_formation.classic_config.nodes.%d = waybill%s@localhost\n", i+1, port)
	}
	cookie := fmt.Sprintf("WAYBILL%016X", rand.Uint64())
	var nodes []*ownserver.Server
	for i, port := range ports {
		n := ownserver.New(t, "rabbitmq", func(dir string) *exec.Cmd {
			cmd := exec.Command("/usr/lib/rabbitmq/bin/rabbitmq-server")
			cmd.Env = append(os.Environ(), "HOME="+dir, "ERL_EPMD_ADDRESS=127.0.0.1",
				"RABBITMQ_NODENAME=waybill"+port+"@localhost", "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", "RABBITMQ_NODE_PORT="+port, "RABBITMQ_DIST_PORT="+between[i],
				"RABBITMQ_MNESIA_BASE="+filepath.Join(dir, "data"), "RABBITMQ_LOG_BASE="+dir, "RABBITMQ_PID_FILE="+filepath.Join(dir, "pid"),
				"RABBITMQ_ENABLED_PLUGINS_FILE="+filepath.Join(dir, "plugins"), "RABBITMQ_CONFIG_FILE="+filepath.Join(dir, "rabbitmq.conf"),
				"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-setcookie "+cookie+" -kernel inet_dist_use_interface {127,0,0,1}")
			return cmd
		})
		if err := os.WriteFile(filepath.Join(n.Dir, "rabbitmq.conf"), []byte(conf.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, n)
	}
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
