package sbfake

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// pulse is how often the server checks what has become due.
const pulse = 10 * time.Millisecond

// Config configures a server.
type Config struct {
	// TLS makes the AMQP listener speak TLS. Optional.
	TLS *tls.Config

	// MaxMessageSize is the largest message in bytes. Optional; the default is 4 MiB.
	MaxMessageSize uint64

	// SessionWait is how long a receiver waits for a free session. Optional; the default is 5
	// seconds, the service has 60.
	SessionWait time.Duration
}

// Server is a running server. It is safe for concurrent use.
type Server struct {
	cfg      Config
	listener net.Listener
	atom     net.Listener
	http     http.Server     // serves atom
	ctx      context.Context // ends with the server
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu       sync.Mutex // guards all that follows, and all entities and links
	entities map[string]*entity
	conns    map[*conn]bool
	links    []*link       // the one that has waited longest for a message first
	ahead    time.Duration // of the clock of this machine
	cut      bool          // cut the connection of the next message, once it is stored
	renewals int           // of locks, so far
	refusals int           // number of messages to refuse
	refusal  described
}

// Start listens on free ports of this machine. The caller must call [Server.Close].
func Start(cfg Config) (*Server, error) {
	if cfg.MaxMessageSize == 0 {
		cfg.MaxMessageSize = 4 << 20
	}
	if cfg.SessionWait == 0 {
		cfg.SessionWait = 5 * time.Second
	}
	s := &Server{cfg: cfg, entities: make(map[string]*entity), conns: make(map[*conn]bool)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	var err error
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	if s.atom, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		s.listener.Close()
		return nil, err
	}
	if cfg.TLS != nil {
		s.listener = tls.NewListener(s.listener, cfg.TLS)
	}
	s.running.Go(s.listen)
	s.running.Go(s.beat)
	s.http.Handler = http.HandlerFunc(s.serveAtom)
	s.running.Go(func() { _ = s.http.Serve(s.atom) }) // ends by Close
	return s, nil
}

// Addr returns host and port of the AMQP listener.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// ConnectionString returns what the official clients connect with.
func (s *Server) ConnectionString() string {
	text := "Endpoint=sb://" + s.Addr() + ";SharedAccessKeyName=test;SharedAccessKey=c2VjcmV0"
	if s.cfg.TLS == nil {
		text += ";UseDevelopmentEmulator=true"
	}
	return text
}

// HTTPClient returns a client whose requests all go to the server's HTTP interface, whatever
// their host, without TLS.
func (s *Server) HTTPClient() *http.Client {
	return &http.Client{Transport: redirect{s.atom.Addr().String()}}
}

// Close ends the listeners and all connections.
func (s *Server) Close() {
	s.cancel()
	s.listener.Close()
	s.http.Close()
	s.running.Wait()
}

// DropConnections cuts all connections. What they had locked stays locked.
func (s *Server) DropConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.net.Close()
	}
}

// CutBeforeConfirm makes the server cut a connection when it has stored the next message that
// arrives, before it confirms it.
func (s *Server) CutBeforeConfirm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = true
}

// Refuse makes the server reject the next n transfers of messages with a condition, such as
// "com.microsoft:server-busy".
func (s *Server) Refuse(n int, condition string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusals, s.refusal = n, failure(condition, "a test asked for this")
}

// Advance puts the server's clock forward, by which locks end and messages become due.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
	s.pump()
}

// now is the server's time. The lock is held.
func (s *Server) now() time.Time { return time.Now().Add(s.ahead) }

// ExpireLocks ends the locks of all messages of an entity now, as if they had run out.
func (s *Server) ExpireLocks(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.find(path); e != nil {
		for _, it := range e.locked {
			e.giveBack(it, true)
		}
	}
	s.pump()
}

// Queue declares a queue unless there is one; Topic and Subscription do the same.
func (s *Server) Queue(name string, settings Settings) { s.ensure(name, settings, false) }

// Topic declares a topic; only DuplicateWindow matters of its settings.
func (s *Server) Topic(name string, settings Settings) { s.ensure(name, settings, true) }

// Subscription declares a subscription to a topic, which must exist.
func (s *Server) Subscription(topic, name string, settings Settings) {
	s.ensure(topic+subscriptionPath+name, settings, false)
}

func (s *Server) ensure(path string, settings Settings, topic bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.declare(path, settings, topic)
}

// Remove deletes an entity. Its links end with not-found.
func (s *Server) Remove(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.find(path); e != nil {
		s.remove(path, e)
	}
}

// Count returns how many messages of an entity can be received, how many are locked, and how many
// are scheduled. All are 0 if there is no such entity.
func (s *Server) Count(path string) (ready, locked, scheduled int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.find(path); e != nil {
		return len(e.ready), len(e.locked), len(e.scheduled)
	}
	return 0, 0, 0
}

// Renewals returns how many locks of messages and of sessions were renewed.
func (s *Server) Renewals() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.renewals
}

func (s *Server) listen() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.running.Go(func() { s.serve(c) })
	}
}

// beat lets time pass for entities and links.
func (s *Server) beat() {
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			s.mu.Lock()
			s.pump()
			s.mu.Unlock()
		}
	}
}

// pump does what has become possible: by time, by a message, or by credit.
func (s *Server) pump() {
	now := s.now()
	for _, e := range s.entities {
		e.tick(now)
	}
	for _, l := range append([]*link(nil), s.links...) {
		l.expire(now)
		l.pump(now)
	}
}
