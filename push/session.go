package push

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill"
)

// Connection is one client, as the protocol that it speaks presents it.
type Connection struct {
	// ID names the connection for [Target]. Optional; the default is a new id.
	ID string

	// Grant is what the client may see, from [Hub.Admit].
	Grant Grant

	// LastEventID is the [Event].ID that the client has seen last. Optional; without it the client
	// gets what is pushed from now on.
	LastEventID string

	// Send passes one event on to the client. It is called by one goroutine at a time, must return
	// soon after ctx has ended, and ends the connection by an error. Required.
	Send func(ctx context.Context, e Event) error
}

// Serve passes events on to one client until ctx ends, the client is disconnected, or Send fails,
// and returns why. The first event is a [ConnectedEvent]; then comes what the client has missed,
// or a [ResetEvent]; then what is pushed, in that order. What is pushed while the client catches
// up waits in its buffer.
//
// A client that catches up gets some messages again that it has had before, a few seconds' worth:
// it tells them by their ids. Once more, ten seconds later, it gets those that the archive did not
// have yet.
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

// greet tells a client its id. One that is new gets a place to catch up from, in case that it is
// cut off before its first message.
func (s *session) greet(ctx context.Context) error {
	e := Event{Kind: ConnectedEvent, Connection: s.ID}
	if s.LastEventID == "" {
		e.ID = timeID(time.Now())
	}
	return s.Send(ctx, e)
}
