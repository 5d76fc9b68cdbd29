package faultproxy

import (
	"io"
	"net"
	"sync"
)

// gate holds up data while it is shut. The zero value is open.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // nil while the gate is open
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case shut && g.opened == nil:
		g.opened = make(chan struct{})
	case !shut && g.opened != nil:
		close(g.opened)
		g.opened = nil
	}
}

// wait returns true when the gate is open, and false if cut is closed before.
func (g *gate) wait(cut <-chan struct{}) bool {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	if opened == nil {
		return true
	}
	select {
	case <-opened:
		return true
	case <-cut:
		return false
	}
}

// pass copies from src to dst, as far as the gate lets it, until either fails. What a silent pair
// sends is dropped.
func (g *gate) pass(dst net.Conn, src io.Reader, pr *pair) {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if !g.wait(pr.cut) {
				return
			}
			if !pr.silent.Load() {
				if _, err := dst.Write(buf[:n]); err != nil {
					return
				}
			}
		}
		if err != nil {
			return
		}
	}
}
