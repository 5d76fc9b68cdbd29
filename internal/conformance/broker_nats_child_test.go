package conformance

import (
	"fmt"
	"net"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// natsChild is a nats-server of the test's own, so that it may be stopped and killed.
type natsChild struct {
	t    *testing.T
	port int
	dir  string
	cmd  *exec.Cmd
}

func newNATSChild(t *testing.T) *natsChild {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := &natsChild{t: t, port: l.Addr().(*net.TCPAddr).Port, dir: t.TempDir()}
	t.Cleanup(c.kill)
	return c
}

func (c *natsChild) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", c.port) }

// start runs the server until kill, and waits until it is seen to be this very process.
func (c *natsChild) start() {
	c.t.Helper()
	name := fmt.Sprintf("waybill-test-%d-%d", c.port, time.Now().UnixNano())
	c.cmd = exec.Command("nats-server", "-a", "127.0.0.1", "-p", fmt.Sprint(c.port), "-js", "-sd", c.dir, "-n", name)
	if err := c.cmd.Start(); err != nil {
		c.t.Fatalf("no nats-server to start, run \"make services\": %v", err)
	}
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if nc, err := nats.Connect(c.url()); err == nil {
			found := nc.ConnectedServerName()
			nc.Close()
			if found != name {
				c.t.Fatalf("port %d is served by %q, not by this test's own server", c.port, found)
			}
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			c.t.Fatal("the test's own nats-server does not start")
		}
	}
}

// stop suspends the process and returns once it is suspended.
func (c *natsChild) stop() {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		c.t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(c.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		c.t.Fatalf("stop nats-server: %v, status %v", err, status)
	}
}

// resume ends the suspension.
func (c *natsChild) resume() {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		c.t.Fatal(err)
	}
}

// kill ends the process without a chance to say so. It may be repeated.
func (c *natsChild) kill() {
	if c.cmd != nil && c.cmd.Process != nil {
		c.cmd.Process.Kill()
		c.cmd.Wait()
		c.cmd = nil
	}
}
