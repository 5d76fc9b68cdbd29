package push

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill"
)

// Connection is one connected client, whatever its protocol.
type Connection struct {
	// ID names the connection for [Target]. Optional; the default is a new id.
	ID string

	// Grant is the client's grant, from [Hub.Admit].
	Grant Grant

	// LastEventID is the last [Event].ID that the client has seen. Optional; without it the client gets
	// what is pushed from now on.
	LastEventID string

	// Send sends one event to the client. It is not called concurrently, must return soon after ctx has
	// ended, and ends the connection by an error. Required.
	Send func(ctx context.Context, e Event) error
}

// Serve sends events to one client until ctx ends, the client is disconnected, or Send fails, and
// returns the cause. The first event is a [ConnectedEvent]; then comes what the client has missed,
// or a [ResetEvent]; then what is pushed, in that order. What is pushed while the client catches
// up waits in its buffer.
//
// A client that catches up receives the messages of a few seconds again: it recognises them by
// their ids. Ten seconds later it also receives those that the archive did not yet have.
func (h *Hub) Serve(ctx context.Context, c Connection) error {
	if c.ID == "" {
		c.ID = waybill.NewID()
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if !c.Grant.Expires.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, c.Grant.Expires, ErrExpired)
		defer cancel()
	}
	s := &session{Connection: c, hub: h, events: make(chan Event, h.cfg.Buffer), end: end}
	if err := h.join(s); err != nil {
		return err
	}
	defer h.leave(s)
	err := s.run(ctx)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// session is a connected client.
type session struct {
	Connection
	hub    *Hub
	events chan Event // pushed, and not yet sent
	end    context.CancelCauseFunc
	missed backlog
}

var errEnded = errors.New("push: the connection has ended")

// run sends events until ctx ends or one cannot be sent.
func (s *session) run(ctx context.Context) error {
	if err := s.greet(ctx); err != nil {
		return err
	}
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	defer s.missed.stop()
	idle := time.NewTimer(s.hub.cfg.Heartbeat)
	defer idle.Stop()
	for {
		if err := s.next(ctx, idle.C); err != nil {
			return err
		}
		idle.Reset(s.hub.cfg.Heartbeat)
	}
}

// next waits for something to send and sends it.
func (s *session) next(ctx context.Context, idle <-chan time.Time) error {
	select {
	case <-ctx.Done():
		return errEnded
	case e := <-s.events:
		return s.missed.once(e, func() error { return s.Send(ctx, e) })
	case <-s.missed.again():
		return s.catchUpAgain(ctx)
	case <-idle:
		return s.Send(ctx, Event{Kind: IdleEvent})
	}
}

// greet sends a client its id. A new client gets an event id to catch up from, in case it is
// disconnected before its first message.
func (s *session) greet(ctx context.Context) error {
	e := Event{Kind: ConnectedEvent, Connection: s.ID}
	if s.LastEventID == "" {
		e.ID = timeID(time.Now())
	}
	return s.Send(ctx, e)
}
