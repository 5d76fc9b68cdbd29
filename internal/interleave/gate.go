package interleave

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"
)

// Board is what the gates of one exploration share.
type Board struct {
	mu      sync.Mutex
	changed *sync.Cond // a gate has changed its state
}

// NewBoard returns a board without gates.
func NewBoard() *Board {
	b := new(Board)
	b.changed = sync.NewCond(&b.mu)
	return b
}

// Gate passes the connections of one session on to a server, and holds each request until it is the session's
// turn. While no run is explored everything passes.
type Gate struct {
	*Board
	listener net.Listener
	target   string
	protocol Protocol

	ports    []int // of the open connections to the server
	state    state
	held     bool // requests need a turn
	answered bool // the server has sent something since the latest request
}

// Protocol reports whether what a client sends is a step: a request that is not, such as one that only prepares
// a statement, passes at once.
type Protocol func(request []byte) bool

type state int

const (
	idle    state = iota // no code of the session runs
	running              // it runs, or the server does its request
	pending              // a request waits for its turn
)

const dialTimeout = 5 * time.Second

// Gate creates a gate to target, a host and port. It listens on a free port of the loopback interface until ctx
// ends.
func (b *Board) Gate(ctx context.Context, target string, p Protocol) (*Gate, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &Gate{Board: b, listener: l, target: target, protocol: p, answered: true}
	context.AfterFunc(ctx, func() { l.Close() })
	go g.accept()
	return g, nil
}

// Local creates a gate for a session whose database is part of the program: it calls Step before each request.
func (b *Board) Local() *Gate {
	return &Gate{Board: b, protocol: func([]byte) bool { return true }, answered: true}
}

// Step waits for the session's turn to make a request.
func (g *Gate) Step() {
	g.request(nil)
	g.answer()
}

// Addr is the host and port that the session connects to.
func (g *Gate) Addr() string { return g.listener.Addr().String() }

// Ports are the local ports of the session's open connections to the server. A pool replaces a connection that broke
// off, so that they may change in the middle of a run.
func (g *Gate) Ports() []int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.ports)
}

func (g *Gate) accept() {
	for {
		client, err := g.listener.Accept()
		if err != nil {
			return
		}
		go g.serve(client)
	}
}

func (g *Gate) serve(client net.Conn) {
	defer client.Close()
	server, err := net.DialTimeout("tcp", g.target, dialTimeout)
	if err != nil {
		return
	}
	defer server.Close()
	port := server.LocalAddr().(*net.TCPAddr).Port
	g.opened(port)
	defer g.closed(port)
	go func() {
		defer client.Close()
		pass(client, server, func([]byte) { g.answer() })
	}()
	pass(server, client, g.request)
}

func (g *Gate) opened(port int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ports = append(g.ports, port)
}

func (g *Gate) closed(port int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ports = slices.DeleteFunc(g.ports, func(p int) bool { return p == port })
}

// pass copies from one connection to another. It calls before with what it has read.
func pass(to, from net.Conn, before func([]byte)) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			before(buf[:n])
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// request waits for the session's turn, if data begins a step.
func (g *Gate) request(data []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.answered || !g.protocol(data) {
		return
	}
	if g.held {
		g.state = pending
		g.changed.Broadcast()
		for g.held && g.state == pending {
			g.changed.Wait()
		}
	}
	g.answered = false
}

func (g *Gate) answer() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answered = true
}
