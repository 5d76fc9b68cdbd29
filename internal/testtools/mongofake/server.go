// Package mongofake is a server for tests that speaks the wire protocol of MongoDB, as far as
// store/mongostore needs it, for machines on which MongoDB cannot be installed.
//
// What it supports behaves as a replica set of one does where stores can tell: transactions read a
// snapshot and see their own writes, others do not see these before the commit, a write that
// clashes with another transaction's fails with WriteConflict and the label
// TransientTransactionError, one outside of transactions waits instead, a clash in a unique
// index is error 11000 and ends the transaction, and a repeated retryable write gets the first
// answer and is not executed again. Everything is kept in memory.
//
// Documents that a TTL index expires stay: stores must not rely on the time at which the server
// removes them.
//
// It refuses commands, options, operators and expressions that it does not support, so that no test
// passes because of something that was ignored.
package mongofake

import (
	"fmt"
	"net"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Server is a running server. It is safe for concurrent use.
type Server struct {
	listener net.Listener
	db       *database
	running  sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]bool
	sessions map[string]*session
	refused  map[string]bool // commands that clients have no right to
}

// Listen starts an empty server on a free port of 127.0.0.1. The caller must close it.
func Listen() (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("mongofake: %w", err)
	}
	s := &Server{listener: l, db: newDatabase(), conns: make(map[net.Conn]bool), sessions: make(map[string]*session), refused: make(map[string]bool)}
	s.running.Go(s.accept)
	return s, nil
}

// URL is where clients connect to.
func (s *Server) URL() string { return "mongodb://" + s.addr() + "/?replicaSet=" + setName }

func (s *Server) addr() string { return s.listener.Addr().String() }

// Close ends the server and everything that waits in it.
func (s *Server) Close() {
	s.listener.Close()
	s.db.close()
	s.CutConnections()
	s.running.Wait()
}

// CutConnections closes every connection that is open now. Clients connect again.
func (s *Server) CutConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
}

// Forbid makes the server refuse a command as to a user without the right to it.
func (s *Server) Forbid(command string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[command] = true
}

func (s *Server) forbidden(command string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused[command]
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[c] = true
		s.mu.Unlock()
		s.running.Go(func() { s.serve(c) })
	}
}

// serve answers the requests on a connection until it ends or a request is malformed.
func (s *Server) serve(c net.Conn) {
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	for {
		req, err := readRequest(c)
		if err != nil {
			return
		}
		reply := s.answer(req.body)
		if req.noReply {
			continue
		}
		if err := req.reply(c, reply); err != nil {
			return
		}
	}
}

func (s *Server) answer(body bson.D) bson.D {
	reply, err := s.run(body)
	if err != nil {
		return asCommandError(err).document()
	}
	return append(reply, bson.E{Key: "ok", Value: 1.0})
}
