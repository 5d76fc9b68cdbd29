//go:build unix

package ownserver

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// redisTimeout is the number of milliseconds without an answer after which a Redis server is considered dead.
const redisTimeout = "1500"

// NewRedis returns a Redis server that writes each command to its file, with further settings such as "min-replicas-to-write 1".
func NewRedis(t *testing.T, port string, settings ...string) *Server {
	t.Helper()
	return newRedis(t, nil, append([]string{
		"port " + port, `save ""`, "appendonly yes",
		"repl-diskless-sync-delay 0", // a replica need not wait for others
		"repl-ping-replica-period 1",
	}, settings...))
}

// NewRedisNode returns a node that belongs to no Redis Cluster yet; bus is its port for other nodes.
func NewRedisNode(t *testing.T, port, bus string, settings ...string) *Server {
	t.Helper()
	return NewRedis(t, port, append([]string{
		"cluster-enabled yes", "cluster-port " + bus, "cluster-node-timeout " + redisTimeout, "cluster-allow-replica-migration no",
	}, settings...)...)
}

// JoinRedis creates a Redis Cluster of the nodes at these addresses: the first half are masters, with a replica
// each.
func JoinRedis(s *Server, addrs []string) {
	s.t.Helper()
	args := append([]string{"--cluster", "create"}, addrs...)
	s.Run("redis-cli", append(args, "--cluster-replicas", "1", "--cluster-yes")...)
}

// NewSentinel returns a Redis Sentinel that watches the master at an address, and fails over if another one agrees.
func NewSentinel(t *testing.T, port, name, master string, settings ...string) *Server {
	t.Helper()
	host, masterPort, _ := strings.Cut(master, ":")
	return newRedis(t, []string{"--sentinel"}, append([]string{
		"port " + port,
		"sentinel monitor " + name + " " + host + " " + masterPort + " 2",
		"sentinel down-after-milliseconds " + name + " " + redisTimeout,
		"sentinel failover-timeout " + name + " 10000",
	}, settings...))
}

// newRedis returns a server with a file of settings, which it may rewrite.
func newRedis(t *testing.T, mode, settings []string) *Server {
	t.Helper()
	s := New(t, "", "", func(dir string) *exec.Cmd {
		return exec.Command("redis-server", append([]string{filepath.Join(dir, "redis.conf")}, mode...)...)
	})
	text := strings.Join(append([]string{"bind 127.0.0.1", "dir " + s.Dir}, settings...), "\n")
	if err := os.WriteFile(filepath.Join(s.Dir, "redis.conf"), []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}
