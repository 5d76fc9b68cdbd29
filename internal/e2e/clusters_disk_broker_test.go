//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill/internal/testtools/ownserver"
)

// TestCluster_RedisDiskFull takes the room on the broker's disk away: Redis refuses writes, or ends if it is to write each of
// them to its disk before it answers. Everything waits, and goes on when there is room; nothing counts as an attempt.
//
//test:cluster
func TestCluster_RedisDiskFull(t *testing.T) {
	disk := ownserver.NewDisk(t, "100")
	port := ownserver.FreePorts(t, 1)[0]
	server := ownserver.NewRedis(t, port, "dir "+disk.Dir)
	server.Start()
	r := &redisServers{t: t, ports: []string{port}, clients: make(map[string]*redis.Client), url: "redis://127.0.0.1:" + port}
	answers := func() bool { return r.ask(port, "PING").Err() == nil }
	eventually(t, "Redis answers", answers)
	w, b := plainWorld(t), r.settings(0)
	r.declare(t, b)
	cluster{waits: true, hurt: func(rng *rand.Rand) string {
		must(t, r.ask(port, "CONFIG", "SET", "appendfsync", []string{"always", "everysec"}[rng.IntN(2)]).Err())
		disk.Fill()
		eventually(t, "Redis has no room", func() bool {
			return server.Ended() || redis.HasErrorPrefix(r.ask(port, "PING").Err(), "MISCONF")
		})
		w.stalls(t)
		if server.Ended() {
			return "disk full, server ended"
		}
		return "disk full"
	}, mend: func() {
		disk.Free()
		if server.Ended() {
			server.Back()
		}
		eventually(t, "Redis takes writes", answers)
	}}.tellOf(t, w, b)
	w.checkNoAttempt(t)
}

// TestCluster_NATSDiskFull takes the room on the broker's disk away: NATS hangs, or ends JetStream, until it is killed and started again.
// Everything waits, and goes on when there is room; nothing counts as an attempt.
//
//test:cluster
func TestCluster_NATSDiskFull(t *testing.T) {
	disk := ownserver.NewDisk(t, "100")
	port := ownserver.FreePorts(t, 1)[0]
	server := ownserver.New(t, "", "", func(string) *exec.Cmd {
		return exec.Command("nats-server", "-a", "127.0.0.1", "-p", port, "-js", "-sd", disk.Dir)
	})
	server.Start()
	b := brokerSettings{Kind: "nats", Name: fmt.Sprintf("e2e%08x", rand.Uint32()), URL: "nats://127.0.0.1:" + port}
	eventually(t, "NATS answers", func() bool { return b.serves(t.Context()) == nil })
	w := plainWorld(t)
	cluster{waits: true, hurt: func(*rand.Rand) string {
		disk.Fill()
		w.stalls(t)
		if errors.Is(b.serves(t.Context()), jetstream.ErrJetStreamNotEnabled) {
			return "disk full, JetStream ended"
		}
		return "disk full"
	}, mend: func() {
		disk.Free()
		server.Kill() // it may hang
		server.Back()
		eventually(t, "NATS answers", func() bool { return b.serves(t.Context()) == nil })
	}}.tellOf(t, w, b)
	w.checkNoAttempt(t)
}

// TestCluster_NATSDiskFullOfOne takes the room on the disk of one of three servers away; the stream has three replicas. The other two go
// on.
//
//test:cluster
func TestCluster_NATSDiskFullOfOne(t *testing.T) {
	disk := ownserver.NewDisk(t, "300")
	nodes, clients := newNATSCluster(t, disk.Dir, "", "")
	b := brokerSettings{
		Kind: "nats", Name: fmt.Sprintf("e2e%08x", rand.Uint32()), URL: eachPort("nats://127.0.0.1:%s", clients), Replicas: len(nodes),
	}
	whole := mendAll(t, nodes, func() error { return b.wholeAtEach(t.Context(), clients) })
	whole()
	cluster{hurt: func(*rand.Rand) string {
		disk.Fill()
		return "disk full"
	}, mend: func() {
		disk.Free()
		nodes[0].Kill() // it may hang
		whole()
	}}.tellOf(t, plainWorld(t), b)
}

// serves returns an error unless JetStream answers.
func (s brokerSettings) serves(ctx context.Context) error {
	return withJetStream(ctx, s.URL, func(context.Context, jetstream.JetStream) error { return nil })
}

// stalls waits until some hundred orders are taken while none is published.
func (w *world) stalls(t *testing.T) {
	t.Helper()
	published := "SELECT count(*) FROM " + w.table("outbox_archive")
	eventually(t, "nothing is published any more", func() bool {
		before := w.number(t, published)
		w.takesMore(t)
		return w.number(t, published) == before
	})
}

// checkNoAttempt fails if an outage was taken for a failure of a message.
func (w *world) checkNoAttempt(t *testing.T) {
	t.Helper()
	if n := w.number(t, "SELECT count(*) FROM "+w.table("messages")+" WHERE attempts > 0"); n != 0 {
		t.Errorf("%d messages have attempts, want none", n)
	}
}
