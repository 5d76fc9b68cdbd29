package push

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/waybill-go/waybill"
)

// Archive is what was published. Stores that keep it implement it: PostgreSQL's and the one in
// memory. Its methods are called concurrently, by a few clients at a time.
type Archive interface {
	// PublishedAt returns when the message with this id was published, by the archive's clock; the
	// first time, if it was several times. It is [waybill.ErrNotFound] if it was not within the
	// time given.
	PublishedAt(ctx context.Context, id string, within time.Duration) (time.Time, error)

	// PublishedSince calls visit for what was published to topics, or sent to destinations of these
	// names, at since or later, in the order of publishing. An error of visit ends it and is
	// returned. visit is called with a connection of the archive held and must not wait.
	PublishedSince(ctx context.Context, topics []string, since time.Time, visit func(*waybill.Message) error) error
}

const (
	archiveReaders = 4               // clients that read the archive at a time
	archiveTimeout = 5 * time.Second // for one of them
	catchUpBytes   = 8 << 20         // payloads that a client may catch up

	// overlap is how much earlier than the last event a client begins to catch up: settlements
	// that run at a time, and consumers that handle several messages at a time, change places.
	overlap = 5 * time.Second

	// overlapOfTime is the same for a client that has seen no message yet. It covers the time from
	// publishing to pushing, and differences between the clocks of process and archive.
	overlapOfTime = time.Minute

	// settleWait is how long after the first time a client reads the archive again: what was pushed
	// before it connected may be settled, and so archived, after it has read. It is longer than the
	// lease of a relay, which bounds that.
	settleWait = 10 * time.Second
)

var errTooMuch = errors.New("more was missed than may be caught up")

// catchUp sends what the client missed since its last event, if it has one, or a reset.
func (s *session) catchUp(ctx context.Context) error {
	if s.LastEventID == "" {
		return nil
	}
	var events []Event
	err := s.hub.readArchive(ctx, func(ctx context.Context, a Archive) (err error) {
		if s.missed.since, err = s.hub.start(ctx, a, s.LastEventID); err == nil {
			events, err = s.read(ctx, a)
		}
		return err
	})
	if err != nil {
		return s.reset(ctx, err)
	}
	s.missed.begin()
	return s.sendMissed(ctx, events)
}

// catchUpAgain sends what the archive did not have yet the first time.
func (s *session) catchUpAgain(ctx context.Context) error {
	var events []Event
	err := s.hub.readArchive(ctx, func(ctx context.Context, a Archive) (err error) {
		events, err = s.read(ctx, a)
		return err
	})
	if err == nil {
		err = s.sendMissed(ctx, events)
	} else {
		err = s.reset(ctx, err)
	}
	s.missed.stop()
	return err
}

func (s *session) sendMissed(ctx context.Context, events []Event) error {
	for _, e := range events {
		if err := s.missed.once(e, func() error { return s.Send(ctx, e) }); err != nil {
			return err
		}
	}
	return nil
}

// read returns what the archive has for the client.
func (s *session) read(ctx context.Context, a Archive) ([]Event, error) {
	var events []Event
	size := 0
	err := a.PublishedSince(ctx, s.Grant.Topics, s.missed.since, func(m *waybill.Message) error {
		if !s.Grant.sees(m) || !s.hub.cfg.Target(m).includes(s.ID, s.Grant) {
			return nil
		}
		if size += len(m.Payload); len(events) == s.hub.cfg.CatchUpLimit || size > catchUpBytes {
			return errTooMuch
		}
		events = append(events, messageEvent(m))
		return nil
	})
	return events, err
}

// start returns from where on the archive is read for a client whose last event had this id.
func (h *Hub) start(ctx context.Context, a Archive, id string) (time.Time, error) {
	if at, ok := parseTimeID(id); ok {
		if time.Since(at) > h.cfg.CatchUpAge {
			return at, waybill.ErrNotFound
		}
		return at.Add(-overlapOfTime), nil
	}
	if len(id) > waybill.MaxIDLen {
		return time.Time{}, waybill.ErrNotFound
	}
	at, err := a.PublishedAt(ctx, id, h.cfg.CatchUpAge)
	return at.Add(-overlap), err
}

// readArchive calls read when one of the few that may read at a time is done.
func (h *Hub) readArchive(ctx context.Context, read func(context.Context, Archive) error) error {
	if h.cfg.Archive == nil {
		return waybill.ErrNotFound
	}
	select {
	case h.reading <- struct{}{}:
		defer func() { <-h.reading }()
	case <-ctx.Done():
		return errEnded
	}
	ctx, cancel := context.WithTimeout(ctx, archiveTimeout)
	defer cancel()
	return read(ctx, h.cfg.Archive)
}

// reset tells the client that it cannot catch up.
func (s *session) reset(ctx context.Context, cause error) error {
	reason := "unavailable"
	switch {
	case ctx.Err() != nil:
		return errEnded
	case errors.Is(cause, waybill.ErrNotFound):
		reason = "unknown"
	case errors.Is(cause, errTooMuch):
		reason = "too_much"
	default:
		s.hub.cfg.Log.Warn("push: the archive cannot be read, a client must reset",
			slog.String("connection", s.ID), slog.String("error", waybill.ErrorText(cause)))
	}
	s.hub.countReset()
	return s.Send(ctx, resetEvent(reason))
}

// backlog is what a client that catches up has been sent, so that it gets it once. The zero value
// is that of a client that does not.
type backlog struct {
	since time.Time
	sent  map[messageKey]bool
	timer *time.Timer
}

// messageKey identifies a message: ids are unique for each source.
type messageKey struct{ source, id string }

func (b *backlog) begin() {
	b.sent = make(map[messageKey]bool)
	b.timer = time.NewTimer(settleWait)
}

// again returns when the archive is to be read again: never, if nothing is to be caught up.
func (b *backlog) again() <-chan time.Time {
	if b.timer == nil {
		return nil
	}
	return b.timer.C
}

// once calls send unless the event has been sent since the client began to catch up.
func (b *backlog) once(e Event, send func() error) error {
	if b.sent == nil {
		return send()
	}
	key := messageKey{e.Message.Source, e.Message.ID}
	if b.sent[key] {
		return nil
	}
	b.sent[key] = true
	return send()
}

// stop ends it.
func (b *backlog) stop() {
	if b.timer != nil {
		b.timer.Stop()
	}
	*b = backlog{}
}
