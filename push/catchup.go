package push

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/observe"
)

// Archive holds published messages. Stores that keep them implement it: the PostgreSQL and the
// in-memory store. Its methods are called concurrently, by a few clients at once.
type Archive interface {
	// PublishedAt returns when the message with this id was published, by the archive's clock; the
	// first time, if it was published several times. The error is [waybill.ErrNotFound] if it was not
	// published within the given time.
	PublishedAt(ctx context.Context, id string, within time.Duration) (time.Time, error)

	// PublishedSince calls visit for each message that was published to topics, or sent to destinations
	// of these names, at since or later, in the order of publishing. An error of visit ends it and is
	// returned. visit is called while a connection of the archive is held and must not block.
	PublishedSince(ctx context.Context, topics []string, since time.Time, visit func(*waybill.Message) error) error
}

const (
	archiveReaders = 4                // clients that read the archive concurrently
	archiveTimeout = 5 * time.Second  // for one of them
	catchUpBytes   = 8 << 20          // payloads that a client may catch up
	pageBytes      = 256 << 10        // of them held for one client, or one event
	eventOverhead  = 512              // of an event without its payload
	catchUpWait    = 30 * time.Second // for others of the same account

	// overlap is how much earlier than the last event a client begins to catch up: concurrent
	// settlements, and consumers with concurrent handlers, change the order.
	overlap = 5 * time.Second

	// overlapOfTime is the same for a client that has seen no message yet. It covers the time from
	// publishing to pushing, and differences between the clocks of process and archive.
	overlapOfTime = time.Minute

	// settleWait is how long after the first time a client reads the archive again: messages that were
	// pushed before it connected may be settled, and so archived, after it has read. It is longer than
	// the lease of a relay, which bounds that.
	settleWait = 10 * time.Second
)

var errTooMuch = errors.New("more was missed than may be caught up")

// catchUp sends what the client missed since its last event, if it has one, or a reset.
func (s *session) catchUp(ctx context.Context) error {
	if s.LastEventID == "" {
		return nil
	}
	err := s.hub.readArchive(ctx, func(ctx context.Context, a Archive) (err error) {
		s.missed.since, err = s.hub.start(ctx, a, s.LastEventID)
		return err
	})
	if err != nil {
		return s.reset(ctx, err)
	}
	s.missed.begin()
	return s.sendMissed(ctx)
}

// catchUpAgain sends what the archive did not yet have the first time.
func (s *session) catchUpAgain(ctx context.Context) error {
	err := s.sendMissed(ctx)
	s.missed.stop()
	return err
}

// sendMissed sends what the archive has and the client has not received, page by page: a slow
// client holds one page. If it is too much, or cannot be read, the client is sent a reset.
func (s *session) sendMissed(ctx context.Context) error {
	leave, err := s.hub.catching.enter(ctx, s.Grant.Account, s.hub.cfg.MaxCatchUps)
	if err != nil {
		return s.reset(ctx, err)
	}
	defer leave()
	p := page{since: s.missed.since, first: true}
	for {
		err := s.hub.readArchive(ctx, func(ctx context.Context, a Archive) error { return s.read(ctx, a, &p) })
		if err != nil {
			return s.reset(ctx, err)
		}
		for _, e := range p.events {
			if err := s.missed.once(e, func() error { return s.Send(ctx, e) }); err != nil {
				return err
			}
		}
		if !p.more {
			return nil
		}
	}
}

// page is a part of what a client has missed.
type page struct {
	first  bool      // everything that follows is counted, too
	since  time.Time // where it begins
	events []Event
	more   bool // there are later events
}

var errPageFull = errors.New("the page is full")

// read replaces the page by the next one of what the client has not been sent.
func (s *session) read(ctx context.Context, a Archive, p *page) error {
	if len(p.events) > 0 { // everything up to the last of them was sent
		if at, err := a.PublishedAt(ctx, p.events[len(p.events)-1].ID, 2*s.hub.cfg.CatchUpAge); err == nil && at.After(p.since) {
			p.since = at
		}
	}
	p.events, p.more = nil, false
	number, held, total := 0, 0, 0
	err := a.PublishedSince(ctx, s.Grant.Topics, p.since, func(m *waybill.Message) error {
		if !s.Grant.sees(m) || s.missed.had(m) || !s.isTarget(m) {
			return nil
		}
		number++
		if total += len(m.Payload); p.first && (number > s.hub.cfg.CatchUpLimit || total > catchUpBytes) {
			return errTooMuch
		}
		size := len(m.Payload) + eventOverhead
		if p.more || len(p.events) > 0 && held+size > pageBytes {
			p.more = true
			if p.first {
				return nil
			}
			return errPageFull
		}
		held += size
		p.events = append(p.events, messageEvent(m))
		return nil
	})
	p.first = false
	if errors.Is(err, errPageFull) {
		err = nil
	}
	return err
}

// isTarget reports whether a message is for the client. One for which [Config.Target] panics has no
// target, as when it was pushed.
func (s *session) isTarget(m *waybill.Message) bool {
	target, err := s.hub.target(m)
	if err != nil {
		s.hub.cfg.Log.Warn("push: message is left out of what a client catches up with", slog.Any("error", err))
		return false
	}
	return target.includes(s.ID, s.Grant)
}

// start returns the time from which the archive is read for a client whose last event had this id.
func (h *Hub) start(ctx context.Context, a Archive, id string) (time.Time, error) {
	if at, ok := parseTimeID(id); ok {
		if time.Since(at) > h.cfg.CatchUpAge {
			return at, waybill.ErrNotFound
		}
		return at.Add(-overlapOfTime), nil
	}
	if len(id) > waybill.MaxIDLen || !utf8.ValidString(id) || strings.ContainsRune(id, 0) {
		return time.Time{}, waybill.ErrNotFound
	}
	at, err := a.PublishedAt(ctx, id, h.cfg.CatchUpAge)
	return at.Add(-overlap), err
}

// readArchive calls read when the number of concurrent readers is below the limit.
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

// reset sends a reset: the client cannot catch up.
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
			slog.String("connection", s.ID), slog.String("error", observe.ErrorText(cause)))
	}
	s.hub.countReset()
	return s.Send(ctx, resetEvent(reason))
}

// backlog records what a client that catches up has been sent, so that it gets each message once.
// The zero value is for a client that does not catch up.
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

// again returns a channel that receives when the archive is to be read again: never, if there is nothing to catch up.
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

// had reports whether the client has been sent a message since it began to catch up.
func (b *backlog) had(m *waybill.Message) bool { return b.sent[messageKey{m.Source, m.ID}] }

// stop ends catching up.
func (b *backlog) stop() {
	if b.timer != nil {
		b.timer.Stop()
	}
	*b = backlog{}
}

// turns limits how many clients of each account catch up concurrently. The zero value is ready for use.
type turns struct {
	mu sync.Mutex
	of map[string]*turn
}

type turn struct {
	free chan struct{}
	used int // clients that are in, or wait
}

var errNoTurn = errors.New("push: others of the same account are catching up")

// enter waits until fewer than limit clients of an account are in, for a limited time.
func (t *turns) enter(ctx context.Context, account string, limit int) (leave func(), err error) {
	if account == "" {
		return func() {}, nil
	}
	one := t.take(account, limit)
	ctx, cancel := context.WithTimeoutCause(ctx, catchUpWait, errNoTurn)
	defer cancel()
	select {
	case one.free <- struct{}{}:
		return func() { <-one.free; t.drop(account) }, nil
	case <-ctx.Done():
		t.drop(account)
		return nil, context.Cause(ctx)
	}
}

func (t *turns) take(account string, limit int) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = make(map[string]*turn)
	}
	if t.of[account] == nil {
		t.of[account] = &turn{free: make(chan struct{}, limit)}
	}
	t.of[account].used++
	return t.of[account]
}

func (t *turns) drop(account string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.of[account]; one.used > 1 {
		one.used--
	} else {
		delete(t.of, account)
	}
}
