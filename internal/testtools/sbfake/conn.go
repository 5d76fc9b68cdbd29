package sbfake

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// conn is one connection. Frames are written by a separate goroutine, so that a client that reads
// slowly holds up no other.
type conn struct {
	server   *Server
	net      net.Conn
	sessions map[uint16]*session

	mu      sync.Mutex
	wake    *sync.Cond
	pending [][]byte
	closed  bool
}

// session is one AMQP session, not to be confused with those of Service Bus.
type session struct {
	conn    *conn
	channel uint16
	nextIn  uint32
	nextOut uint32
	links   map[uint32]*link
	open    map[uint32]uuid  // locks of deliveries that the client has not settled
	origin  map[uint32]*link // which link each went out on
}

// serve handles one connection until it ends.
func (s *Server) serve(nc net.Conn) {
	c := &conn{server: s, net: nc, sessions: make(map[uint16]*session)}
	c.wake = sync.NewCond(&c.mu)
	s.mu.Lock()
	s.conns[c] = true
	s.mu.Unlock()
	stop := context.AfterFunc(s.ctx, func() { nc.Close() })
	defer stop()
	var writing sync.WaitGroup
	writing.Go(c.write)
	defer func() {
		c.finish()
		writing.Wait()
		nc.Close()
		s.forget(c)
	}()
	if c.handshake() != nil {
		return
	}
	for {
		f, err := readFrame(nc)
		if err != nil {
			return
		}
		s.mu.Lock()
		open := c.handle(f)
		s.pump()
		s.mu.Unlock()
		if !open {
			return
		}
	}
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	for _, ss := range c.sessions {
		ss.end()
	}
}

// send queues a frame. A frame that cannot be encoded is a bug of this package: the connection
// ends.
func (c *conn) send(kind byte, channel uint16, code uint64, fields list, body []byte) {
	b, err := newFrame(kind, channel, code, fields, body)
	if err != nil {
		c.net.Close()
		return
	}
	c.queue(b)
}

func (c *conn) queue(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = append(c.pending, b)
	c.wake.Signal()
}

// finish makes write end once it has written what is pending.
func (c *conn) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.wake.Signal()
}

func (c *conn) write() {
	for {
		c.mu.Lock()
		for len(c.pending) == 0 && !c.closed {
			c.wake.Wait()
		}
		pending := c.pending
		c.pending = nil
		c.mu.Unlock()
		if len(pending) == 0 {
			return
		}
		_ = c.net.SetWriteDeadline(time.Now().Add(5 * time.Second)) // the write fails too
		if _, err := c.net.Write(bytes.Join(pending, nil)); err != nil {
			c.net.Close()
			return
		}
	}
}

// saslProtocol is the protocol id by which a client asks for SASL first.
const saslProtocol = 3

// handshake agrees on the protocol and accepts every client: Service Bus takes its credentials
// later, by tokens.
func (c *conn) handshake() error {
	for {
		var header [8]byte
		if _, err := io.ReadFull(c.net, header[:]); err != nil {
			return err
		}
		if string(header[:4]) != "AMQP" {
			return errFrame
		}
		c.queue(header[:])
		if header[4] != saslProtocol {
			return nil
		}
		c.send(saslFrame, 0, saslMechanisms, list{symbols{"ANONYMOUS", "MSSBCBS", "PLAIN"}}, nil)
		if f, err := readFrame(c.net); err != nil || f.code != saslInit {
			return errFrame
		}
		c.send(saslFrame, 0, saslOutcome, list{uint8(0)}, nil)
	}
}

// handle does what a frame asks for, and reports whether the connection goes on.
func (c *conn) handle(f frame) bool {
	switch f.code {
	case 0:
	case codeOpen:
		c.send(amqpFrame, 0, codeOpen, list{"sbfake", nil, uint32(65_536), uint16(4999), uint32(240_000)}, nil)
	case codeClose:
		c.send(amqpFrame, 0, codeClose, list{}, nil)
		return false
	case codeBegin:
		c.begin(f)
	default:
		if ss := c.sessions[f.channel]; ss != nil {
			return ss.handle(f)
		}
	}
	return true
}

// window is the number of transfers that either side may send unasked: more than there will ever
// be.
const window = uint32(1 << 30)

func (c *conn) begin(f frame) {
	ss := &session{
		conn: c, channel: f.channel, nextIn: as[uint32](f.fields.at(1)),
		links: make(map[uint32]*link), open: make(map[uint32]uuid), origin: make(map[uint32]*link),
	}
	c.sessions[f.channel] = ss
	ss.send(codeBegin, list{f.channel, ss.nextOut, window, window, uint32(4095)}, nil)
}

func (ss *session) send(code uint64, fields list, body []byte) {
	ss.conn.send(amqpFrame, ss.channel, code, fields, body)
}

func (ss *session) handle(f frame) bool {
	switch f.code {
	case codeEnd:
		ss.end()
		delete(ss.conn.sessions, ss.channel)
		ss.send(codeEnd, list{}, nil)
	case codeAttach:
		ss.attach(f.fields)
	case codeFlow:
		ss.flow(f.fields)
	case codeDetach:
		if l := ss.links[as[uint32](f.fields.at(0))]; l != nil {
			l.detach(nil)
		}
	case codeTransfer:
		return ss.transfer(f)
	case codeDisposition:
		ss.dispose(f.fields)
	}
	return true
}

// end forgets the session's links. What they have locked stays locked.
func (ss *session) end() {
	for _, l := range ss.links {
		l.drop()
	}
}

// flow takes the credit that a client grants, or answers a request for the state.
func (ss *session) flow(f list) {
	if handle, ok := f.at(4).(uint32); ok {
		if l := ss.links[handle]; l != nil && l.sends {
			l.credit = as[uint32](f.at(5)) + as[uint32](f.at(6)) - l.count
			l.drain = as[bool](f.at(8))
		}
	}
	if as[bool](f.at(9)) {
		ss.sendFlow(nil)
	}
}

// sendFlow sends the state of the session to the client, and that of a link if it is given.
func (ss *session) sendFlow(l *link) {
	fields := list{ss.nextIn, window, ss.nextOut, window}
	if l != nil {
		fields = append(fields, l.handle, l.count, l.credit, nil, l.drain)
	}
	ss.send(codeFlow, fields, nil)
}
