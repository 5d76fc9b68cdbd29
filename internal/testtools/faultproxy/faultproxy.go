// Package faultproxy stands between a client and a server in tests and lets the network
// between them fail: cut, refused, or silent. It is imported by tests only.
package faultproxy

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy passes TCP connections on to a target. It is safe for concurrent use.
type Proxy struct {
	listener net.Listener
	target   string

	mu       sync.Mutex
	pairs    map[*pair]struct{}
	refusing bool
	closed   bool
	requests gate // client to server
	replies  gate // server to client
	trap     trap

	dropsCancels atomic.Bool
}

// New starts a proxy for target, a host and port, on a free port of the loopback interface.
// It ends with ctx, or by [Proxy.Close].
func New(ctx context.Context, target string) (*Proxy, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, target: target, pairs: make(map[*pair]struct{})}
	context.AfterFunc(ctx, p.Close)
	go p.accept()
	return p, nil
}

// Addr is the host and port that clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut resets all connections. New ones can be made at once.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pr := range p.pairs {
		pr.end(reset)
		delete(p.pairs, pr)
	}
}

// Refuse sets whether new connections are reset as soon as they are made.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = refuse
}

// Stall sets whether connections, old and new, stay open while nothing passes through them. What
// waited passes when the stall ends.
func (p *Proxy) Stall(stall bool) {
	p.requests.set(stall)
	p.replies.set(stall)
}

// Swallow makes the connections that are open now silent for good: they stay open, and what
// either side sends is dropped. New ones can be made at once.
func (p *Proxy) Swallow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pr := range p.pairs {
		pr.silent.Store(true)
	}
}

// StallReplies is Stall for what the server sends; what the client sends still arrives.
func (p *Proxy) StallReplies(stall bool) { p.replies.set(stall) }

// CutOn ends each connection over which text passes to the server, just before it does; "" ends none.
// What was sent before text arrives.
func (p *Proxy) CutOn(text string) { p.trap.set(text) }

// Conns is the number of open connections.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pairs)
}

// Inject sends data to all clients as if it came from the server. The server must be silent
// meanwhile, or data may be mixed with its own.
func (p *Proxy) Inject(data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pr := range p.pairs {
		if _, err := pr.client.Write(data); err != nil {
			return err
		}
	}
	return nil
}

// Close cuts all connections and accepts no more.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.listener.Close()
	p.Cut()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.serve(client)
	}
}

// serve passes data between client and target until either side, or Cut, ends it.
func (p *Proxy) serve(client net.Conn) {
	first, ok := p.opening(client)
	if !ok {
		client.Close()
		return
	}
	server, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	if err != nil {
		reset(client)
		return
	}
	if _, err := server.Write(first); err != nil {
		reset(client)
		server.Close()
		return
	}
	pr := &pair{client: client, server: server, cut: make(chan struct{})}
	if !p.add(pr) {
		pr.end(reset)
		return
	}
	go func() {
		defer pr.end(hangUp)
		p.requests.pass(server, &watched{conn: client, trap: &p.trap}, pr)
	}()
	p.replies.pass(client, server, pr)
	pr.end(hangUp)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pairs, pr)
}

func (p *Proxy) add(pr *pair) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refusing || p.closed {
		return false
	}
	p.pairs[pr] = struct{}{}
	return true
}

// pair is one connection of a client and the one to the server that belongs to it.
type pair struct {
	client, server net.Conn
	once           sync.Once
	cut            chan struct{}
	silent         atomic.Bool
}

func (p *pair) end(how func(net.Conn)) {
	p.once.Do(func() {
		close(p.cut)
		how(p.client)
		how(p.server)
	})
}

func hangUp(c net.Conn) { c.Close() }

// reset closes c with a TCP reset, and drops what is still to be sent.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // closed in any case
	}
	c.Close()
}
