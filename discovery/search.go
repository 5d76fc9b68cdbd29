package discovery

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
)

// The limits of a search, whatever is published.
const (
	maxHeard    = 1000 // answers and announcements
	maxAccepted = 100  // services
)

// search is one ping with its answers.
type search struct {
	finder   *Finder
	id       string
	done     chan struct{} // closed when decision is set
	decision Decision

	mu       sync.Mutex
	ended    bool // later answers are ignored
	heard    int
	accepted []Endpoint
	refused  int
	first    func() // ends the search after the selection window
}

func newSearch(f *Finder) *search {
	return &search{finder: f, id: waybill.NewID(), done: make(chan struct{})}
}

// run pings, and waits for the first answer, then for the selection window.
func (s *search) run() {
	f := s.finder
	ctx, cancel := context.WithTimeout(context.Background(), f.cfg.Timeout)
	defer cancel()
	s.first = func() { time.AfterFunc(f.cfg.SelectionWindow, cancel) }
	err := f.transport.Ping(ctx, f.bus, f.group, s.id, f.ping, s.hear)
	if ctx.Err() != nil {
		err = nil // the search ended it
	}
	s.decide(err)
}

func (s *search) decide(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.decision = Decision{Reason: ReasonNoneFound, Accepted: len(s.accepted), Refused: s.refused}
	switch {
	case len(s.accepted) > 0:
		s.decision.Reason, s.decision.Endpoint = ReasonDiscovered, best(s.accepted)
	case err != nil:
		s.decision.Reason, s.decision.Err = ReasonUnavailable, err
	}
}

// best returns the endpoint with the highest priority, then the first name, then the first URL,
// whatever the order of list.
func best(list []Endpoint) Endpoint {
	return slices.MinFunc(list, func(a, b Endpoint) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name), cmp.Compare(a.URL, b.URL))
	})
}

// hear receives an answer or an announcement. Answers to other pings are ignored.
func (s *search) hear(correlationID string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.heard >= maxHeard || correlationID != "" && correlationID != s.id {
		return
	}
	s.heard++
	e, err := s.finder.accept(correlationID, body)
	switch {
	case err == errAnswer:
	case err != nil:
		s.refuse(err)
	case slices.Contains(s.accepted, e): // the service has announced itself, and answered
	case len(s.accepted) < maxAccepted:
		if s.accepted = append(s.accepted, e); len(s.accepted) == 1 {
			s.first()
		}
	}
}

func (s *search) refuse(err error) {
	if s.refused++; s.refused == 1 {
		s.finder.logRefusal(err)
	}
}

// accept reads an announcement and returns the endpoint, if it may be used.
func (f *Finder) accept(correlationID string, body []byte) (Endpoint, error) {
	a, e, err := decode(body, correlationID)
	if err != nil {
		return Endpoint{}, err
	}
	u, err := parseURL("Endpoint.URL", e.URL)
	if err == nil {
		err = f.allowed.check(u)
	}
	if err == nil {
		err = a.verify(f.cfg.TrustedKeys, f.bus, f.group, time.Now())
	}
	return e, err
}
