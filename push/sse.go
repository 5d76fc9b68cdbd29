package push

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/waybill-go/waybill"
)

// lastEventParam is a query parameter that replaces the header Last-Event-ID, for a page that was
// reloaded and has kept the id. The header takes precedence.
const lastEventParam = "lastEventId"

// LastEventID returns the id of the last event that the client has seen: the header Last-Event-ID,
// which browsers send by themselves, or the parameter lastEventId of the query.
func LastEventID(r *http.Request) string {
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		return id
	}
	return r.URL.Query().Get(lastEventParam)
}

// ServeHTTP serves Server-Sent Events to one client, until it disconnects or is disconnected:
//
//	new EventSource("/events?topic=orders", {withCredentials: true})
//
// An event has the message's type as its name, its ID as its id, and its payload as data: unchanged
// if it is UTF-8 text without carriage returns and NUL, else as a data URL with the content type,
// "data:image/png;base64,…". The events "connected", with the id of the connection as data, and
// "reset", with the reason as data, come from the hub; message types should not use these names.
// The parameter topic narrows what the client gets. It is not logged, nor is any
// other part of the URL.
//
// The server's WriteTimeout does not apply; [Config.WriteTimeout] does, to each event.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g, ok := h.Admit(w, r)
	if !ok {
		return
	}
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET, OPTIONS")
		http.Error(w, "the method must be GET", http.StatusMethodNotAllowed)
		return
	}
	out := &stream{w: w, rc: http.NewResponseController(w), retry: h.cfg.Retry, timeout: h.cfg.WriteTimeout, http2: r.ProtoMajor >= 2}
	err := h.Serve(r.Context(), Connection{Grant: g, LastEventID: LastEventID(r), Send: out.send})
	if !out.begun && (errors.Is(err, ErrFull) || errors.Is(err, ErrClosed)) {
		w.Header().Set("Retry-After", fmt.Sprint(max(1, int(h.cfg.Retry.Seconds()))))
		http.Error(w, "no more clients can be served", http.StatusServiceUnavailable)
	}
}

// stream is a response with a stream of events.
type stream struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	retry   time.Duration
	timeout time.Duration
	http2   bool
	begun   bool
}

// lastWrite is how long a write may still take when its client is disconnected.
const lastWrite = time.Second

// send writes one event and waits until the client's socket has accepted it.
func (s *stream) send(ctx context.Context, e Event) error {
	if err := s.limit(time.Now().Add(s.timeout)); err != nil {
		return err
	}
	// A client that is being disconnected may be the reason that the write does not return. A healthy
	// one accepts the event, and the end of the stream, at once.
	stop := context.AfterFunc(ctx, func() { _ = s.limit(time.Now().Add(lastWrite)) })
	defer stop()
	frame := frameOf(e)
	if !s.begun {
		s.begin()
		frame = append(fmt.Appendf(nil, "retry: %d\n\n", s.retry.Milliseconds()), frame...)
	}
	if _, err := s.w.Write(frame); err != nil {
		return waybill.UnavailableError(fmt.Errorf("push: write an event: %w", err))
	}
	if err := s.rc.Flush(); err != nil || !s.http2 {
		return err
	}
	// HTTP/2 would end the stream at the deadline, although nothing is being written then.
	return s.limit(time.Time{})
}

// limit sets the write deadline, if that is supported.
func (s *stream) limit(deadline time.Time) error {
	err := s.rc.SetWriteDeadline(deadline)
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

func (s *stream) begin() {
	s.begun = true
	header := s.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // nginx would buffer events
	s.w.WriteHeader(http.StatusOK)
}
