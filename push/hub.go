package push

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/loop"
)

// Why a client was disconnected, or could not connect. Serve returns them.
var (
	// ErrSlow reports that a client's buffer was full. It may connect again and catch up.
	ErrSlow = errors.New("push: the client is too slow")

	// ErrExpired reports that the client's grant has expired.
	ErrExpired = errors.New("push: the grant has expired")

	// ErrRevoked reports that [Hub.Disconnect] has disconnected the client.
	ErrRevoked = errors.New("push: the client was disconnected")

	// ErrFull reports that [Config.MaxClients] are connected.
	ErrFull = errors.New("push: too many clients")

	// ErrClosed reports that the hub is closed.
	ErrClosed = errors.New("push: the hub is closed")
)

// Hub holds the clients that are connected to this process. It is safe for concurrent use. As a
// [contract.Publisher] it is best effort: see the package.
type Hub struct {
	cfg      Config
	reading  chan struct{} // holds a value for each client that reads the archive
	catching turns

	mu      sync.Mutex
	clients map[*session]struct{}
	closed  bool
	stats   Stats
}

// Stats are the figures of a hub since its creation.
type Stats struct {
	Clients int // currently connected
	Pushed  int // messages put into clients' buffers, counted once for each client
	Slow    int // clients disconnected because their buffer was full
	Resets  int // resets sent to clients
}

// New returns a hub without clients.
func New(cfg Config) (*Hub, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	cfg.Log.Info("push is best effort: messages go to the clients connected to this process and are not kept for others",
		slog.Bool("catch_up", cfg.Archive != nil))
	return &Hub{
		cfg:     cfg,
		reading: make(chan struct{}, archiveReaders),
		clients: make(map[*session]struct{}),
	}, nil
}

// Push puts a copy of m into the buffer of each connected client that may see it and is in its
// target, without blocking. A client whose buffer is full is disconnected. It returns nil
// when there is no such client, a permanent error when [Config.Target] panics, and an unavailable
// error when the hub is closed.
func (h *Hub) Push(m *waybill.Message) error {
	target, err := h.target(m)
	if err != nil {
		return err
	}
	slow, err := h.spread(messageEvent(m), target)
	for _, s := range slow {
		h.cfg.Log.Warn("push: client is too slow and was disconnected", slog.String("connection", s.ID),
			slog.String("topic", m.Address()), slog.Int("buffer", h.cfg.Buffer))
	}
	return err
}

// target returns the target of a message, or a permanent error when the user's function panics.
func (h *Hub) target(m *waybill.Message) (target Target, err error) {
	err = loop.Protect(func() error {
		target = h.cfg.Target(m)
		return nil
	})
	if err != nil {
		return Target{}, waybill.PermanentError(waybill.ReasonRejected, fmt.Errorf("push: Target of message %q: %w", m.ID, err))
	}
	return target, nil
}

// spread puts an event into buffers and returns the clients that had no room. No later event
// reaches these, so that what they have received has no gap.
func (h *Hub) spread(e Event, target Target) (slow []*session, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, waybill.UnavailableError(ErrClosed)
	}
	for s := range h.clients {
		if !s.Grant.sees(e.Message) || !target.includes(s.ID, s.Grant) {
			continue
		}
		select {
		case s.events <- e:
			h.stats.Pushed++
		default:
			slow = append(slow, s)
			h.stats.Slow++
			h.remove(s, ErrSlow)
		}
	}
	return slow, nil
}

// Send implements [contract.Publisher]: nil says that the message was pushed, in the sense of
// [Hub.Push], and no more than that.
func (h *Hub) Send(_ context.Context, msgs []contract.Outgoing) (wait func() []error) {
	results := make([]error, len(msgs))
	for i, m := range msgs {
		results[i] = h.Push(m.Message)
	}
	return func() []error { return results }
}

// Handler returns a handler that pushes each message. It is for a consumer whose group is used by
// this process only, since each process pushes to its own clients; docs/brokers/push.md shows it.
func Handler[Tx any](h *Hub) consumer.Handler[Tx] {
	return func(_ context.Context, _ Tx, m *waybill.Message) error { return h.Push(m) }
}

// Disconnect disconnects the clients of a user, whose rights are checked when they reconnect, and
// returns their number.
func (h *Hub) Disconnect(user string) int {
	return h.DisconnectIf(func(g Grant) bool { return g.User == user })
}

// DisconnectIf disconnects the clients for whose grant revoked returns true, and returns their number.
// revoked must return quickly and call no method of the hub.
func (h *Hub) DisconnectIf(revoked func(Grant) bool) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for s := range h.clients {
		if revoked(s.Grant) {
			h.remove(s, ErrRevoked)
			n++
		}
	}
	return n
}

// Stats returns the figures of the hub.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	stats := h.stats
	stats.Clients = len(h.clients)
	return stats
}

// Close disconnects all clients; later ones are refused, and messages are unavailable. Call it
// before the Shutdown of the HTTP server, which waits for clients. It may be called twice and
// always returns nil.
func (h *Hub) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for s := range h.clients {
		h.remove(s, ErrClosed)
	}
	return nil
}

// join adds a client. From then on pushed messages go into its buffer.
func (h *Hub) join(s *session) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return waybill.UnavailableError(ErrClosed)
	case len(h.clients) >= h.cfg.MaxClients:
		return waybill.UnavailableError(fmt.Errorf("%w: %d are connected", ErrFull, len(h.clients)))
	}
	h.clients[s] = struct{}{}
	return nil
}

func (h *Hub) leave(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.remove(s, context.Canceled)
}

// remove removes a client and ends its session. The caller holds mu.
func (h *Hub) remove(s *session, cause error) {
	delete(h.clients, s)
	s.end(cause)
}

func (h *Hub) countReset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stats.Resets++
}
