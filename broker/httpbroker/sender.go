package httpbroker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

var (
	errClosed   = errors.New("httpbroker: is closed")
	errDisabled = errors.New("httpbroker: the endpoint is disabled")
	errBehind   = errors.New("httpbroker: not sent, an earlier message of its key has failed")
)

const (
	// behindDelay is how long messages behind a failed one of the same key are deferred. The relay
	// keeps them behind that message anyway.
	behindDelay = time.Millisecond

	// disabledDelay is how long a message for a disabled endpoint waits before it is tried again.
	disabledDelay = time.Minute

	// maxDoubtful is how many messages with a failed last attempt are remembered.
	maxDoubtful = 10_000
)

// sender posts messages to one endpoint.
type sender struct {
	endpoint Endpoint
	keys     [][]byte
	client   *http.Client
	timeout  time.Duration
	closed   <-chan struct{}
	slots    chan struct{} // one for each request in flight

	mu       sync.Mutex
	last     map[unit]*line      // that was sent last, of each unit in flight
	until    time.Time           // the endpoint has asked for a pause until then
	doubtful map[string]struct{} // webhook-ids of failed attempts, which may have arrived
}

var _ contract.Publisher = (*sender)(nil)

func newSender(e Endpoint, keys [][]byte, client *http.Client, cfg Config, closed <-chan struct{}) *sender {
	return &sender{
		endpoint: e, keys: keys, client: client, timeout: cfg.Timeout, closed: closed,
		slots:    make(chan struct{}, cfg.Parallelism),
		last:     make(map[unit]*line),
		doubtful: make(map[string]struct{}),
	}
}

// unit is what order is kept in.
type unit struct{ address, key string }

// line holds the messages of one unit in one Send, by their places. It is posted after the line
// before it, one message after the other.
type line struct {
	unit   unit
	places []int
	before *line
	done   chan struct{} // closed when all of it is answered
}

// Send implements [contract.Publisher]. After a message that fails, later ones of its (topic, key)
// are returned unsent.
func (s *sender) Send(ctx context.Context, msgs []contract.Outgoing) (wait func() []error) {
	results := make([]error, len(msgs))
	var posts sync.WaitGroup
	for _, l := range s.lineUp(msgs) {
		posts.Go(func() {
			defer s.leave(l)
			s.post(ctx, l, msgs, results)
		})
	}
	return func() []error {
		posts.Wait()
		return results
	}
}

// lineUp sorts messages into lines. One without a key gets its own line.
func (s *sender) lineUp(msgs []contract.Outgoing) []*line {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []*line
	byUnit := make(map[unit]*line)
	for i, m := range msgs {
		u := unit{m.Address(), m.Key}
		l := byUnit[u]
		if l == nil || m.Key == "" {
			l = &line{unit: u, done: make(chan struct{})}
			lines = append(lines, l)
			if m.Key != "" {
				l.before = s.last[u]
				byUnit[u], s.last[u] = l, l
			}
		}
		l.places = append(l.places, i)
	}
	return lines
}

// leave releases the line behind l.
func (s *sender) leave(l *line) {
	close(l.done)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last[l.unit] == l {
		delete(s.last, l.unit)
	}
}

// post posts a line and records the results of its messages.
func (s *sender) post(ctx context.Context, l *line, msgs []contract.Outgoing, results []error) {
	if l.before != nil {
		<-l.before.done // it ends with the context of its own Send
		l.before = nil
	}
	var failed error
	for _, i := range l.places {
		if failed != nil {
			results[i] = behind(failed)
			continue
		}
		failed = s.postOne(ctx, msgs[i])
		results[i] = failed
	}
}

// behind is the result of a message that was not sent because one before it has failed. If the
// endpoint as a whole is unavailable, all of them stay queued.
func behind(failed error) error {
	if _, alone := waybill.AfterOf(failed); waybill.IsUnavailable(failed) && !alone {
		return waybill.UnavailableError(errBehind)
	}
	return waybill.RetryAfter(behindDelay, errBehind)
}

func (s *sender) postOne(ctx context.Context, m contract.Outgoing) error {
	if s.endpoint.Disabled {
		return waybill.RetryAfter(disabledDelay, errDisabled)
	}
	select {
	case <-s.closed:
		return waybill.UnavailableError(errClosed)
	case <-ctx.Done():
		return s.unanswered(ctx.Err(), false)
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	}
	if err := s.resting(); err != nil {
		return err
	}
	req, id := s.request(ctx, m)
	answered, err := s.do(req)
	s.remember(id, !answered || err != nil && !waybill.IsPermanent(err))
	return err
}

// request builds one attempt at a message.
func (s *sender) request(ctx context.Context, m contract.Outgoing) (*http.Request, string) {
	m.Structured = m.Structured || s.endpoint.Structured
	h, body := encode(m.Message, m.Structured)
	id := idFor(h, body, m)
	sign(h, id, time.Now(), body, s.keys)
	if !m.Resent && !s.doubts(id) {
		h.Set(attemptHeader, firstAttempt)
	} else {
		h.Set(attemptHeader, "again")
	}
	if plain(m.TraceParent) && m.TraceParent != "" {
		h.Set("Traceparent", m.TraceParent)
		if plain(m.TraceState) && m.TraceState != "" {
			h.Set("Tracestate", m.TraceState)
		}
	}
	for name, value := range s.endpoint.Headers {
		h.Set(name, value)
	}
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", "waybill")
	}
	// Not sent, it lets package http repeat what met a connection that was closed while idle.
	h["Idempotency-Key"] = []string{}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint.URL, bytes.NewReader(body))
	if err != nil { // the URL was parsed before
		req = &http.Request{URL: &url.URL{}}
	}
	req.Header = h
	return req, id
}

// do sends a request, and reports whether it was answered.
func (s *sender) do(req *http.Request) (answered bool, err error) {
	ctx, cancel := context.WithTimeout(req.Context(), s.timeout)
	defer cancel()
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	resp, err := s.client.Do(req.WithContext(ctx))
	if err != nil {
		return false, s.unanswered(withoutURL(err), connected.Load() && ctx.Err() == nil)
	}
	drain(resp.Body)
	return true, s.judge(resp)
}

// unanswered is the error of a message that was not answered, lost if its connection ended
// meanwhile.
func (s *sender) unanswered(err error, lost bool) error {
	err = fmt.Errorf("httpbroker: post to %q: %w", s.endpoint.Name, err)
	if lost {
		err = fmt.Errorf("%w: %w", err, contract.ErrConnectionLost)
	}
	return waybill.UnavailableError(err)
}

// withoutURL removes the URL, which may hold a secret, from an error of package http.
func withoutURL(err error) error {
	var with *url.Error
	if errors.As(err, &with) {
		return with.Err
	}
	return err
}

// resting returns an error while the endpoint has asked for a pause.
func (s *sender) resting() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := time.Until(s.until); left > 0 {
		return waybill.UnavailableError(fmt.Errorf("httpbroker: endpoint %q has asked for rest, %v more", s.endpoint.Name, left.Round(time.Second)))
	}
	return nil
}

// rest pauses the endpoint for a while.
func (s *sender) rest(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Now().Add(d)
}

// remember records whether an attempt has failed and may have arrived anyway.
func (s *sender) remember(id string, doubtful bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !doubtful {
		delete(s.doubtful, id)
		return
	}
	if len(s.doubtful) >= maxDoubtful {
		clear(s.doubtful) // their attempts are then marked as first ones, which is only a hint
	}
	s.doubtful[id] = struct{}{}
}

func (s *sender) doubts(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, doubtful := s.doubtful[id]
	return doubtful
}
