package main

import (
	"io"
	"net"
	"net/url"
	"sync"
)

// wire is the network between the shop and the broker. While it is cut, connections break and
// new ones are refused.
type wire struct {
	target   string
	listener net.Listener

	mu    sync.Mutex
	isCut bool
	conns map[net.Conn]bool
}

func newWire(broker string) (*wire, error) {
	u, err := url.Parse(broker)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &wire{target: u.Host, listener: listener, conns: make(map[net.Conn]bool)}
	go w.serve()
	return w, nil
}

func (w *wire) address() string { return w.listener.Addr().String() }

func (w *wire) serve() {
	for {
		conn, err := w.listener.Accept()
		if err != nil {
			return // closed
		}
		go w.carry(conn)
	}
}

func (w *wire) carry(from net.Conn) {
	defer w.drop(from)
	to, err := net.Dial("tcp", w.target)
	if err != nil {
		return
	}
	defer w.drop(to)
	if !w.keep(from, to) {
		return
	}
	go func() {
		_, _ = io.Copy(to, from)
		w.drop(to)
	}()
	_, _ = io.Copy(from, to)
}

// keep remembers connections, unless the wire is cut.
func (w *wire) keep(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range conns {
		w.conns[conn] = true
	}
	return !w.isCut
}

func (w *wire) drop(conn net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, conn)
	_ = conn.Close()
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = true
	for conn := range w.conns {
		_ = conn.Close()
	}
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = false
}

func (w *wire) close() {
	_ = w.listener.Close()
	w.cut()
}
