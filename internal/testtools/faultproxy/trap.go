package faultproxy

import (
	"bytes"
	"io"
	"net"
	"sync/atomic"
)

// trap is a text that ends the connection it passes on. The zero value ends none.
type trap struct {
	text atomic.Pointer[[]byte] // nil: none
}

func (t *trap) set(text string) {
	if text == "" {
		t.text.Store(nil)
		return
	}
	b := []byte(text)
	t.text.Store(&b)
}

// watched reads from a connection up to the trap's text.
type watched struct {
	conn net.Conn
	trap *trap
	tail []byte // the end of what was read before: it may be the first part of the text
}

// Read returns what comes before the text, and with it [io.EOF].
func (w *watched) Read(buf []byte) (int, error) {
	n, err := w.conn.Read(buf)
	text := w.trap.text.Load()
	if text == nil {
		return n, err
	}
	seen := append(w.tail, buf[:n]...)
	if at := bytes.Index(seen, *text); at >= 0 {
		return max(0, at-len(w.tail)), io.EOF
	}
	w.tail = bytes.Clone(seen[max(0, len(seen)-len(*text)+1):])
	return n, err
}
