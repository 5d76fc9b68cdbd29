package main

import (
	"io"
	"net"
	"time"
)

// proxy forwards TCP connections to a server and delays the server's answers, each piece by
// the time that it adds to a round trip. It delays; it does not limit the rate. All of the
// delay is on the way back, where a timer is exact enough.
type proxy struct {
	listener net.Listener
	target   string
	delay    time.Duration
}

func newProxy(target string, delay time.Duration) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{l, target, delay}
	go p.serve()
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) close() { _ = p.listener.Close() } // connections end with their ends

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		go func() {
			_, _ = io.Copy(server, client)
			_ = server.Close()
		}()
		go func() {
			p.copyLate(client, server)
			_ = client.Close()
		}()
	}
}

// piece is what was read at once, and when it may be forwarded.
type piece struct {
	data []byte
	due  time.Time
}

func (p *proxy) copyLate(to io.Writer, from io.Reader) {
	pieces := make(chan piece, 1<<14)
	go func() {
		defer close(pieces)
		for {
			data := make([]byte, 32<<10)
			n, err := from.Read(data)
			if n > 0 {
				pieces <- piece{data[:n], time.Now().Add(p.delay)}
			}
			if err != nil {
				return
			}
		}
	}()
	var err error
	for piece := range pieces {
		time.Sleep(time.Until(piece.due))
		if err == nil {
			_, err = to.Write(piece.data)
		}
	}
}
