//go:build unix

package ownserver

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
)

// Network connects servers of one test, which have an address each, with each other and with the test. Each address is a
// network namespace of Linux, a switch is one more.
type Network struct {
	Addrs []string

	t    *testing.T
	name string
	cut  [][2]string // from an address to another one
}

// NewNetwork returns a network with addrs addresses. Only root may create one. It is removed with the test.
func NewNetwork(t *testing.T, addrs int) *Network {
	t.Helper()
	n := &Network{t: t, name: fmt.Sprintf("waybill%04x", rand.N(1<<16))}
	subnet := fmt.Sprintf("198.18.%d.", rand.N(256)) // of those reserved for tests
	hub := n.name + "hub"
	n.addNamespace(hub)
	n.ip("-n", hub, "link", "add", "name", "switch", "type", "bridge")
	n.ip("-n", hub, "link", "set", "switch", "up")
	n.ip("link", "add", n.name, "type", "veth", "peer", "name", "test", "netns", hub)
	n.plugIn("test")
	n.ip("addr", "add", subnet+"1/24", "dev", n.name)
	n.ip("link", "set", n.name, "up")
	for i := range addrs {
		addr := subnet + fmt.Sprint(10+i)
		n.Addrs = append(n.Addrs, addr)
		space, port := n.namespace(addr), fmt.Sprint("port", i)
		n.addNamespace(space)
		n.ip("-n", space, "link", "add", "net", "type", "veth", "peer", "name", port, "netns", hub)
		n.plugIn(port)
		n.ip("-n", space, "addr", "add", addr+"/24", "dev", "net")
		n.ip("-n", space, "link", "set", "net", "up")
	}
	return n
}

// addNamespace creates a namespace that can reach itself.
func (n *Network) addNamespace(name string) {
	n.t.Helper()
	n.ip("netns", "add", name)
	n.t.Cleanup(func() { n.ip("netns", "del", name) })
	n.ip("-n", name, "link", "set", "lo", "up")
}

// plugIn connects a device to the switch.
func (n *Network) plugIn(device string) {
	n.t.Helper()
	n.ip("-n", n.name+"hub", "link", "set", device, "master", "switch")
	n.ip("-n", n.name+"hub", "link", "set", device, "up")
}

func (n *Network) namespace(addr string) string { return n.name + "-" + addr }

// Place lets a server run at an address, from its next start on. It runs as root.
func (n *Network) Place(s *Server, addr string) {
	s.launcher = []string{"ip", "netns", "exec", n.namespace(addr)}
}

// CutOff silently drops every packet between some addresses and the other ones. The test still reaches all.
func (n *Network) CutOff(addrs ...string) {
	n.t.Helper()
	for _, a := range addrs {
		for _, b := range n.Addrs {
			if !slices.Contains(addrs, b) {
				n.cut = append(n.cut, [2]string{a, b}, [2]string{b, a})
			}
		}
	}
	for _, way := range n.cut {
		n.ip("-n", n.namespace(way[0]), "route", "add", "blackhole", way[1])
	}
}

// Join undoes CutOff.
func (n *Network) Join() {
	n.t.Helper()
	for _, way := range n.cut {
		n.ip("-n", n.namespace(way[0]), "route", "del", "blackhole", way[1])
	}
	n.cut = nil
}

func (n *Network) ip(args ...string) {
	n.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		n.t.Fatalf("ip %v, which needs root: %v\n%s", args, err, out)
	}
}
