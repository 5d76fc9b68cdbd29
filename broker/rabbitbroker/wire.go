package rabbitbroker

import (
	"context"
	"net"
	"sync"
	"time"
)

const (
	// writeTimeout ends a write that makes no progress. Without it a write on a dead
	// connection blocks amqp091 from closing that connection, until TCP gives up.
	writeTimeout = 20 * time.Second

	// writeGrace is how long a write may go on after its context has ended, so that one
	// which makes progress does not cost the connection.
	writeGrace = 50 * time.Millisecond

	// corkSize is how many bytes are collected before they are written.
	corkSize = 64 << 10
)

// wire is the network connection beneath amqp091. It bounds the time of writes, which
// amqp091 does not, and can collect the messages of a batch into few writes (measured: 20 to
// 35 % more messages per second than one write per message).
type wire struct {
	net.Conn

	writing sync.Mutex // held while writing
	corked  bool
	buf     []byte

	limits  sync.Mutex // held while the deadline is set
	expired bool
}

// Write implements [net.Conn].
func (w *wire) Write(p []byte) (int, error) {
	w.writing.Lock()
	defer w.writing.Unlock()
	if w.corked && len(w.buf)+len(p) <= corkSize {
		w.buf = append(w.buf, p...)
		return len(p), nil
	}
	if err := w.flush(); err != nil {
		return 0, err
	}
	return w.write(p)
}

// cork collects what is written until uncork is called.
func (w *wire) cork() {
	w.writing.Lock()
	defer w.writing.Unlock()
	w.corked = true
}

func (w *wire) uncork() error {
	w.writing.Lock()
	defer w.writing.Unlock()
	w.corked = false
	return w.flush()
}

func (w *wire) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	_, err := w.write(w.buf)
	w.buf = w.buf[:0]
	return err
}

func (w *wire) write(p []byte) (int, error) {
	w.limits.Lock()
	if !w.expired {
		_ = w.Conn.SetWriteDeadline(time.Now().Add(writeTimeout)) // the write fails too
	}
	w.limits.Unlock()
	return w.Conn.Write(p)
}

// limit makes writes fail, a blocked one included, soon after ctx has ended. It holds until
// release is called.
func (w *wire) limit(ctx context.Context) (release func()) {
	ran := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ran)
		w.limits.Lock()
		defer w.limits.Unlock()
		w.expired = true
		_ = w.Conn.SetWriteDeadline(time.Now().Add(writeGrace)) // fails if closed only
	})
	return func() {
		if stop() {
			return
		}
		<-ran
		w.limits.Lock()
		defer w.limits.Unlock()
		w.expired = false
	}
}
