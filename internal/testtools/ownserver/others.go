//go:build unix

package ownserver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// NewMariaDB returns a MariaDB server, whose data [Server.InitMariaDB] creates. dir is that of [New].
func NewMariaDB(t *testing.T, dir, port string, settings ...string) *Server {
	t.Helper()
	return New(t, dir, "mysql", func(dir string) *exec.Cmd { return mariadb(dir, port, settings) })
}

func mariadb(dir, port string, settings []string) *exec.Cmd {
	args := []string{"--no-defaults", "--datadir=" + filepath.Join(dir, "data"), "--bind-address=127.0.0.1", "--port=" + port,
		"--socket=" + filepath.Join(dir, "socket"), "--pid-file=" + filepath.Join(dir, "pid")}
	return exec.Command("mariadbd", append(args, settings...)...)
}

// InitMariaDB creates an empty database system for the user root, who needs no password.
func (s *Server) InitMariaDB() {
	s.t.Helper()
	s.Run("mariadb-install-db", "--no-defaults", "--datadir="+filepath.Join(s.Dir, "data"), "--auth-root-authentication-method=normal", "--skip-test-db")
}

// RabbitPorts are those of a node of RabbitMQ: for clients, and for other nodes and its tools.
type RabbitPorts struct{ Clients, Nodes string }

// NewRabbitMQ returns the nodes of a RabbitMQ cluster. dirs are those of [New].
func NewRabbitMQ(t *testing.T, dirs []string, ports []RabbitPorts) []*Server {
	t.Helper()
	var conf strings.Builder
	conf.WriteString("cluster_formation.peer_discovery_backend = classic_config\ncluster_partition_handling = pause_minority\n")
	for i, p := range ports {
		fmt.Fprintf(&conf, "cluster_formation.classic_config.nodes.%d = waybill%s@localhost\n", i+1, p.Clients)
	}
	cookie := fmt.Sprintf("WAYBILL%016X", rand.Uint64())
	nodes := make([]*Server, len(ports))
	for i, p := range ports {
		nodes[i] = New(t, dirs[i], "rabbitmq", func(dir string) *exec.Cmd {
			cmd := exec.Command("/usr/lib/rabbitmq/bin/rabbitmq-server")
			cmd.Env = append(os.Environ(), "HOME="+dir, "ERL_EPMD_ADDRESS=127.0.0.1", "RABBITMQ_ERLANG_COOKIE="+cookie,
				"RABBITMQ_NODENAME=waybill"+p.Clients+"@localhost", "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", "RABBITMQ_NODE_PORT="+p.Clients, "RABBITMQ_DIST_PORT="+p.Nodes,
				"RABBITMQ_MNESIA_BASE="+filepath.Join(dir, "data"), "RABBITMQ_LOG_BASE="+dir, "RABBITMQ_PID_FILE="+filepath.Join(dir, "pid"),
				"RABBITMQ_ENABLED_PLUGINS_FILE="+filepath.Join(dir, "plugins"), "RABBITMQ_CONFIG_FILE="+filepath.Join(dir, "rabbitmq.conf"),
				"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-setcookie "+cookie+" -kernel inet_dist_use_interface {127,0,0,1}")
			return cmd
		})
		if err := os.WriteFile(filepath.Join(nodes[i].Dir, "rabbitmq.conf"), []byte(conf.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return nodes
}

// RabbitMembers returns the number of nodes of its cluster that a node of RabbitMQ works with, including
// itself.
func RabbitMembers(node *Server) (int, error) {
	out, err := rabbitEval(node, "length(rabbit_mnesia:cluster_nodes(running)).")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(out)
}

// RabbitDisconnect ends the connections from a node of RabbitMQ to others, given by their ports for clients,
// and allows no new ones. Connections from them to the node have to be ended there.
func RabbitDisconnect(node *Server, others ...string) error {
	return rabbitToward(node, others, "begin erlang:set_cookie(N, 'of somebody else'), erlang:disconnect_node(N) end")
}

// RabbitReconnect undoes RabbitDisconnect.
func RabbitReconnect(node *Server, others ...string) error {
	return rabbitToward(node, others, "erlang:set_cookie(N, erlang:get_cookie())")
}

// RabbitDiskFull makes a node of RabbitMQ consider its disk full, or no longer: it raises the alarm by which
// every node of the cluster refuses messages.
func RabbitDiskFull(node *Server, full bool) error {
	least := "50MB"
	if full {
		least = "500TB"
	}
	_, err := rabbitEval(node, fmt.Sprintf("rabbit_disk_monitor:set_disk_free_limit(%q).", least))
	return err
}

// rabbitToward evaluates an expression about N for each of the other nodes.
func rabbitToward(node *Server, others []string, expression string) error {
	list := make([]string, len(others))
	for i, port := range others {
		list[i] = "'waybill" + port + "@localhost'"
	}
	_, err := rabbitEval(node, "["+expression+" || N <- ["+strings.Join(list, ", ")+"]].")
	return err
}

// rabbitEval returns what an Erlang expression is on a node.
func rabbitEval(node *Server, expression string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := node.as(exec.CommandContext(ctx, "/usr/lib/rabbitmq/bin/rabbitmqctl", "-q", "eval", expression))
	cmd.Env = node.command().Env // its name and cookie
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("rabbitmqctl: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
