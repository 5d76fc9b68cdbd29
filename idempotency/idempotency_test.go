package idempotency

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
)

var errAway = waybill.UnavailableError(errors.New("the store is away"))

// keyOfK is what identifies POST /payments with the key k.
const keyOfK = "http:POST:/payments::k"

// fakeStore keeps leases and responses. What is missing of the contract is not called.
type fakeStore struct {
	lease.Store

	mu        sync.Mutex
	leases    map[string]fakeLease
	responses map[string][]byte
	beginErr  error
	renewErr  error
	findErr   error
	readErr   error
	saveErr   error
	status    lease.Status  // what TryBegin answers, if not by the contract
	beforeAck func()        // runs when TryBegin has acquired
	silent    chan struct{} // if set, renewals wait for its end, whatever their context says
}

type fakeLease struct {
	id, owner string
	ends      time.Time
}

func newFakeStore() *fakeStore {
	return &fakeStore{leases: make(map[string]fakeLease), responses: make(map[string][]byte)}
}

func (s *fakeStore) TryBegin(ctx context.Context, req lease.Request) (lease.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.beginErr != nil:
		return lease.Answer{}, s.beginErr
	case s.status != "":
		return lease.Answer{Status: s.status}, nil
	case time.Now().Before(s.leases[req.Key].ends):
		return lease.Answer{Status: lease.Busy}, nil
	}
	begun := fakeLease{req.LeaseID(), req.Owner, time.Now().Add(req.TTL)}
	s.leases[req.Key] = begun
	if s.beforeAck != nil {
		s.beforeAck()
	}
	if ctx.Err() != nil {
		return lease.Answer{}, ctx.Err()
	}
	return lease.Answer{Status: lease.Acquired, LeaseID: begun.id, Token: 1}, nil
}

func (s *fakeStore) RenewLease(_ context.Context, l lease.Lease, ttl time.Duration) (lease.Answer, error) {
	var silent chan struct{}
	s.change(func() { silent = s.silent })
	if silent != nil {
		<-silent
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.renewErr != nil:
		return lease.Answer{}, s.renewErr
	case s.leases[l.Key].id != l.ID:
		return lease.Answer{Status: lease.Lost}, nil
	}
	s.leases[l.Key] = fakeLease{l.ID, s.leases[l.Key].owner, time.Now().Add(ttl)}
	return lease.Answer{Status: lease.Acquired}, nil
}

func (s *fakeStore) ReleaseLease(_ context.Context, l lease.Lease, _ lease.Release) (lease.Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases[l.Key].id == l.ID {
		delete(s.leases, l.Key)
	}
	return lease.Released, nil
}

func (s *fakeStore) ReadLease(_ context.Context, key string) (lease.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return lease.Record{Status: lease.Busy, Owner: s.leases[key].owner}, s.readErr
}

func (s *fakeStore) FindResponse(_ context.Context, key string) ([]byte, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.responses[key]
	return r, ok, s.findErr
}

func (s *fakeStore) SaveResponse(ctx context.Context, key string, response []byte, _ time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, ok := s.responses[key]; !ok && s.saveErr == nil {
		s.responses[key] = response
	}
	return s.saveErr
}

func (s *fakeStore) change(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

// api is a guarded handler with its store.
type api struct {
	*testing.T
	store *fakeStore
	log   bytes.Buffer
	runs  atomic.Int32
	http.Handler
}

// newAPI guards a handler that answers as h does and counts its runs.
func newAPI(t *testing.T, cfg Config, h http.HandlerFunc) *api {
	t.Helper()
	a := &api{T: t, store: newFakeStore()}
	cfg.Logger = slog.New(slog.NewTextHandler(&a.log, nil))
	cfg.Shared = cfg.Tenant == nil
	guarded, err := New(a.store, a.store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	a.Handler = guarded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.runs.Add(1)
		h(w, r)
	}))
	return a
}

// post sends a request to /payments and returns what came back.
func (a *api) post(key, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(body))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return a.send(r)
}

func (a *api) send(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

// want checks a response, and how often the handler has run until now.
func (a *api) want(w *httptest.ResponseRecorder, status int, text string, runs int) {
	a.Helper()
	if w.Code != status || !strings.Contains(w.Body.String(), text) || int(a.runs.Load()) != runs {
		a.Fatalf("answered %d %q after %d runs, want %d with %q after %d", w.Code, w.Body, a.runs.Load(), status, text, runs)
	}
}

func created(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Location", "/payments/1")
	w.Header().Set("Set-Cookie", "secret=1")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write([]byte("paid\n\x00"))
}

func TestNew(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	for _, tc := range []struct {
		cfg   Config
		wrong string // the field
	}{
		{Config{}, ""},
		{Config{Shared: true, Tenant: func(*http.Request) string { return "t" }}, "Shared"},
		{Config{Methods: []string{"post"}}, "Methods"},
		{Config{ConflictStatus: 409}, ""},
		{Config{ConflictStatus: 400}, "ConflictStatus"},
		{Config{TTL: MinTTL}, ""},
		{Config{TTL: MinTTL - 1}, "TTL"},
		{Config{TTL: MaxTTL}, ""},
		{Config{TTL: MaxTTL + 1}, "TTL"},
		{Config{LeaseTTL: MinLeaseTTL}, ""},
		{Config{LeaseTTL: MinLeaseTTL - 1}, "LeaseTTL"},
		{Config{LeaseTTL: MaxLeaseTTL}, ""},
		{Config{LeaseTTL: MaxLeaseTTL + 1}, "LeaseTTL"},
		{Config{TTL: time.Minute, LeaseTTL: time.Minute + 1}, "LeaseTTL"},
		{Config{MaxBody: -1}, "MaxBody"},
		{Config{MaxBody: MaxSize + 1}, "MaxBody"},
		{Config{MaxResponse: -1}, "MaxResponse"},
		{Config{MaxResponse: MaxSize + 1}, "MaxResponse"},
	} {
		tc.cfg.Shared = tc.cfg.Shared || tc.cfg.Tenant == nil
		_, err := New(store, store, tc.cfg)
		var invalid *waybill.InvalidError
		if errors.As(err, &invalid) != (tc.wrong != "") || invalid != nil && invalid.Field != tc.wrong {
			t.Errorf("New(%+v) = %v, want an error of %q", tc.cfg, err, tc.wrong)
		}
	}
	var invalid *waybill.InvalidError
	if _, err := New(store, store, Config{}); !errors.As(err, &invalid) || invalid.Field != "Tenant" {
		t.Errorf("New() = %v, want an error of Tenant: a client could be sent another one's response", err)
	}
	if _, err := New(nil, store, Config{}); err == nil {
		t.Error("New() without a lease store = nil")
	}
	if _, err := New(store, nil, Config{}); err == nil {
		t.Error("New() without responses = nil")
	}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{}, created)
	first := a.post("k", "10 EUR")
	a.want(first, 201, "paid\n\x00", 1)
	if first.Header().Get("Set-Cookie") == "" || first.Header().Get("Idempotency-Replayed") != "" {
		t.Errorf("headers of the first answer = %v", first.Header())
	}
	again := a.post(`"k"`, "10 EUR")
	a.want(again, 201, "paid\n\x00", 1)
	h := again.Header()
	if h.Get("Location") != "/payments/1" || h.Get("Set-Cookie") != "" || h.Get("Idempotency-Replayed") != "true" || h.Get("X-Idempotent-Replay") != "true" {
		t.Errorf("headers of the replay = %v", h)
	}
	if again.Body.String() != first.Body.String() {
		t.Errorf("replayed body = %q, want %q", again.Body, first.Body)
	}
}

func TestOtherPayload(t *testing.T) {
	t.Parallel()
	for _, status := range []int{422, 409} {
		a := newAPI(t, Config{ConflictStatus: status}, created)
		a.post("k", "10 EUR")
		w := a.post("k", "10 EUR ")
		a.want(w, status, `"code":"IDEMPOTENCY_CONFLICT"`, 1)
		if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
			t.Errorf("Content-Type = %q, want a problem", got)
		}
		r := httptest.NewRequest(http.MethodPost, "/payments?amount=20", strings.NewReader("10 EUR"))
		r.Header.Set("Idempotency-Key", "k")
		a.want(a.send(r), status, "IDEMPOTENCY_CONFLICT", 1)
	}
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{Tenant: func(r *http.Request) string { return r.Header.Get("Authorization") }}, created)
	for i, id := range []struct{ tenant, key, method, path string }{
		{"a", "k", "POST", "/x"},
		{"b", "k", "POST", "/x"},
		{"a", "K", "POST", "/x"},
		{"a", "k", "PUT", "/x"},
		{"a", "k", "POST", "/y"},
		{"a", "k", "POST", "/x%2Fy"},
		{"a", "k", "POST", "/x/y"},
		{"a", "y:k", "POST", "/x"},
		{"a", "k", "POST", "/x:y"},
		{"a:http", "k", "POST", "/x"},
	} {
		for range 2 {
			r := httptest.NewRequest(id.method, id.path, nil)
			r.Header.Set("Authorization", id.tenant)
			r.Header.Set("Idempotency-Key", id.key)
			a.want(a.send(r), 201, "paid", i+1)
		}
	}
}

// TestNobody: what nobody sends runs as often as it arrives, so that nobody takes, or is sent, what somebody's
// key stands for.
func TestNobody(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{Tenant: func(*http.Request) string { return "" }}, created)
	a.want(a.post("k", "x"), 201, "paid", 1)
	a.want(a.post("k", "x"), 201, "paid", 2)
	a.want(a.post("", "x"), 400, "IDEMPOTENCY_KEY_MISSING", 2)
}

// TestKeep: who was refused is not told so for ever, unless that is asked for.
func TestKeep(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status int
		keep   func(int) bool
		stored bool
	}{
		{200, nil, true}, {303, nil, true}, {404, nil, true}, {409, nil, true},
		{401, nil, false}, {403, nil, false}, {407, nil, false}, {408, nil, false}, {425, nil, false}, {429, nil, false}, {500, nil, false}, {503, nil, false},
		{403, func(status int) bool { return status < 500 }, true},
		{200, func(status int) bool { return status == 201 }, false},
	} {
		a := newAPI(t, Config{Keep: tc.keep}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(tc.status) })
		want := 2
		if tc.stored {
			want = 1
		}
		a.post("k", "x")
		a.want(a.post("k", "x"), tc.status, "", want)
	}
}

func TestWithoutKey(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{}, created)
	a.want(a.post("", "x"), 400, "IDEMPOTENCY_KEY_MISSING", 0)
	a.want(a.post(`"`, "x"), 400, "IDEMPOTENCY_KEY_MALFORMED", 0)
	a.want(a.send(httptest.NewRequest(http.MethodGet, "/payments", nil)), 201, "paid", 1)

	a = newAPI(t, Config{AllowMissing: true, Methods: []string{"POST"}}, created)
	a.want(a.post("", "x"), 201, "paid", 1)
	a.want(a.post("", "x"), 201, "paid", 2)
	a.want(a.post(`"`, "x"), 400, "IDEMPOTENCY_KEY_MALFORMED", 2)
	r := httptest.NewRequest(http.MethodDelete, "/payments", nil)
	r.Header.Set("Idempotency-Key", "k")
	a.want(a.send(r), 201, "paid", 3)
	a.want(a.send(r), 201, "paid", 4)
}

func TestBody(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{MaxBody: 4}, func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		_, _ = w.Write(body.Bytes())
	})
	a.want(a.post("k", "1234"), 200, "1234", 1)
	a.want(a.post("l", "12345"), 413, "IDEMPOTENCY_BODY", 1)
	r := httptest.NewRequest(http.MethodPost, "/payments", &failingReader{})
	r.Header.Set("Idempotency-Key", "m")
	a.want(a.send(r), 400, "IDEMPOTENCY_BODY", 1)
}

type failingReader struct{}

func (*failingReader) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// TestNotStored has the answers after which the key is free again.
func TestNotStored(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		status int
		body   string
		stored bool
	}{
		{"created", 201, "x", true},
		{"no content", 204, "", true},
		{"bad request", 400, "x", true},
		{"conflict", 409, "x", true},
		{"request timeout", 408, "x", false},
		{"too early", 425, "x", false},
		{"too many requests", 429, "x", false},
		{"server error", 500, "x", false},
		{"unavailable", 503, "x", false},
		{"at the limit", 200, strings.Repeat("x", 100), true},
		{"over the limit", 200, strings.Repeat("x", 101), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, Config{MaxResponse: 100}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/1")
				w.WriteHeader(http.StatusEarlyHints)
				w.WriteHeader(tc.status)
				w.WriteHeader(http.StatusTeapot)
				w.Header().Set("Location", "/too/late")
				for i := range tc.body {
					_, _ = w.Write([]byte(tc.body[i : i+1]))
				}
			})
			want := 2
			if tc.stored {
				want = 1
			}
			a.want(a.post("k", ""), tc.status, tc.body, 1)
			w := a.post("k", "")
			a.want(w, tc.status, tc.body, want)
			if w.Body.Len() != len(tc.body) || w.Header().Get("Location") != "/1" {
				t.Errorf("second answer has %d bytes and Location %q", w.Body.Len(), w.Header().Get("Location"))
			}
		})
	}
}

func TestPanicReleases(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{}, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for range 2 {
		func() {
			defer func() {
				if got := recover(); got != http.ErrAbortHandler {
					t.Errorf("recovered %v, want the handler's panic", got)
				}
			}()
			a.post("k", "")
		}()
	}
	if a.runs.Load() != 2 {
		t.Errorf("the handler ran %d times, want again after its panic", a.runs.Load())
	}
}

func TestStoreAway(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*fakeStore){
		"find":                  func(s *fakeStore) { s.findErr = errAway },
		"begin":                 func(s *fakeStore) { s.beginErr = errAway },
		"keys used by others":   func(s *fakeStore) { s.status = lease.Processed },
		"response not readable": func(s *fakeStore) { s.responses[keyOfK] = []byte("?") },
		"find once leased":      func(s *fakeStore) { s.beforeAck = func() { s.findErr = errAway } },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, Config{}, created)
			a.store.change(func() { fault(a.store) })
			w := a.post("k", "payload")
			a.want(w, 503, "IDEMPOTENCY_UNAVAILABLE", 0)
			if w.Header().Get("Retry-After") == "" || !strings.Contains(a.log.String(), "level=ERROR") {
				t.Errorf("Retry-After = %q, log = %q", w.Header().Get("Retry-After"), &a.log)
			}
			if len(a.store.leases) > 0 {
				t.Error("the lease was kept")
			}
		})
	}
}

// TestResponseNotSaved: the effect has happened, so the client receives what happened.
func TestResponseNotSaved(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{}, created)
	a.store.saveErr = errAway
	a.want(a.post("k", ""), 201, "paid", 1)
	if !strings.Contains(a.log.String(), "not stored") {
		t.Errorf("log = %q, want that the response was not stored", &a.log)
	}
	a.want(a.post("k", ""), 409, "IDEMPOTENCY_IN_PROGRESS", 1) // until the lease ends
}

// TestStoredMeanwhile: who held the lease before stores its response between our look for one and
// our lease.
func TestStoredMeanwhile(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{}, created)
	a.want(a.post("k", ""), 201, "paid", 1)
	stored := a.store.responses[keyOfK]
	a.store.change(func() {
		delete(a.store.responses, keyOfK)
		delete(a.store.leases, keyOfK)
		a.store.beforeAck = func() { a.store.responses[keyOfK] = stored }
	})
	a.want(a.post("k", ""), 201, "paid", 1)
}

// TestStoredBeforeSent: a client that has an answer can't make the handler run again, whatever
// happens to this process.
func TestStoredBeforeSent(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{}, created)
	w := &sendingWriter{ResponseRecorder: httptest.NewRecorder(), sent: func() {
		if len(a.store.responses) != 1 {
			t.Error("the response is sent before it is stored")
		}
	}}
	r := httptest.NewRequest(http.MethodPost, "/payments", nil)
	r.Header.Set("Idempotency-Key", "k")
	a.ServeHTTP(w, r)
	a.want(w.ResponseRecorder, 201, "paid", 1)
}

// sendingWriter calls sent before anything is sent.
type sendingWriter struct {
	*httptest.ResponseRecorder
	sent func()
}

func (w *sendingWriter) WriteHeader(status int) {
	w.sent()
	w.ResponseRecorder.WriteHeader(status)
}
