package inboxhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/observe"
)

// stub is a store that answers what it is configured to and notes what it was asked.
type stub struct {
	answer lease.Answer
	status lease.Status
	record lease.Record
	err    error
	panics any
	wait   func(context.Context)

	mu       sync.Mutex
	requests []lease.Request
	ttl      time.Duration
	leases   []lease.Lease
	keys     []string
	released []lease.Release
}

var _ lease.Store = (*stub)(nil)

func (s *stub) note(ctx context.Context, what func()) {
	if s.wait != nil {
		s.wait(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	what()
	if s.panics != nil {
		panic(s.panics)
	}
}

func (s *stub) TryBegin(ctx context.Context, r lease.Request) (lease.Answer, error) {
	s.note(ctx, func() { s.requests = append(s.requests, r) })
	return s.answer, s.err
}

func (s *stub) RenewLease(ctx context.Context, l lease.Lease, ttl time.Duration) (lease.Answer, error) {
	s.note(ctx, func() { s.leases, s.ttl = append(s.leases, l), ttl })
	return s.answer, s.err
}

func (s *stub) MarkProcessed(ctx context.Context, l lease.Lease) (lease.Status, error) {
	s.note(ctx, func() { s.leases = append(s.leases, l) })
	return s.status, s.err
}

func (s *stub) ReleaseLease(ctx context.Context, l lease.Lease, r lease.Release) (lease.Status, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	s.note(ctx, func() { s.leases, s.released = append(s.leases, l), append(s.released, r) })
	return s.status, s.err
}

func (s *stub) ReadLease(ctx context.Context, key string) (lease.Record, error) {
	s.note(ctx, func() { s.keys = append(s.keys, key) })
	return s.record, s.err
}

func (s *stub) PurgeLeases(context.Context, time.Duration, int) (int, error) { return 0, s.err }

// notes is an observer that keeps what it receives.
type notes struct {
	mu     sync.Mutex
	starts []waybill.Message
	ends   []error
	events []observe.Event
}

var _ observe.Observer = (*notes)(nil)

func (w *notes) Start(ctx context.Context, op observe.Op, msgs ...*waybill.Message) (context.Context, func(error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if op == observe.OpServe {
		w.starts = append(w.starts, *msgs[0])
	}
	return ctx, func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ends = append(w.ends, err)
	}
}

func (w *notes) Observe(_ context.Context, e observe.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

func newServer(t *testing.T, store lease.Store, cfg Config) *Server {
	t.Helper()
	if cfg.Observer == nil {
		cfg.Observer = &notes{}
	}
	s, err := NewServer(store, cfg)
	if err != nil {
		t.Fatalf("NewServer() = %v", err)
	}
	return s
}

// send sends a request to a server and returns its answer.
func send(h http.Handler, method, path, body string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// bodyOf returns the body of an answer.
func bodyOf(t *testing.T, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// wantProblem checks that an answer is a problem with a code, whose text has some words and
// nothing of what must not be disclosed.
func wantProblem(t *testing.T, r *http.Response, code int, words string) {
	t.Helper()
	text := bodyOf(t, r)
	var p problem
	strict := json.NewDecoder(bytes.NewReader([]byte(text)))
	strict.DisallowUnknownFields()
	err := strict.Decode(&p)
	if r.StatusCode != code || p.Status != code || err != nil || r.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("the answer is %d %s %s (%v), want a problem with code %d", r.StatusCode, r.Header.Get("Content-Type"), text, err, code)
	}
	if !strings.Contains(p.Detail, words) {
		t.Errorf("the problem is %q, want %q in it", p.Detail, words)
	}
	for _, secret := range []string{"s3cr3t", "goroutine", ".go:", "Go struct"} {
		if strings.Contains(text, secret) {
			t.Errorf("the problem tells %q: %s", secret, text)
		}
	}
}
