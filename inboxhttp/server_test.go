package inboxhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/observe"
)

// bareClient keeps no connections: httptest closes idle ones of the default client, also those that
// another test is about to use.
var bareClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

var moon = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.FixedZone("east", 9*3600))

func TestServer_Answers(t *testing.T) {
	t.Parallel()
	acquired := lease.Answer{Status: lease.Acquired, LeaseID: "L1", Token: 3, Attempts: 2, ExpiresAt: moon, Remaining: time.Minute}
	for _, tt := range []struct {
		name, method, path, body string
		store                    *stub
		want                     string
	}{
		{"acquired", "POST", "try-begin", `{"key":"k"}`, &stub{answer: acquired},
			`{"status":"Acquired","leaseId":"L1","token":3,"attempts":2,"expiresAt":"2026-03-01T03:00:00.123456Z","remainingMs":60000}`},
		{"busy", "POST", "try-begin", `{"key":"k"}`,
			&stub{answer: lease.Answer{Status: lease.Busy, Attempts: 1, ExpiresAt: moon, Remaining: time.Minute}},
			`{"status":"Busy","attempts":1,"expiresAt":"2026-03-01T03:00:00.123456Z","remainingMs":60000,"retryAfterMs":5000}`},
		{"busy, soon free", "POST", "try-begin", `{"key":"k"}`,
			&stub{answer: lease.Answer{Status: lease.Busy, Attempts: 1, Remaining: time.Microsecond}},
			`{"status":"Busy","attempts":1,"retryAfterMs":1}`},
		{"processed", "POST", "try-begin", `{"key":"k"}`, &stub{answer: lease.Answer{Status: lease.Processed, Attempts: 1}},
			`{"status":"Processed","attempts":1}`},
		{"processed with another payload", "POST", "try-begin", `{"key":"k"}`, &stub{answer: lease.Answer{Status: lease.Processed, Attempts: 1, Conflict: true}},
			`{"status":"Processed","attempts":1,"conflict":true}`},
		{"renewed", "POST", "renew", `{"key":"k","leaseId":"L1"}`, &stub{answer: acquired},
			`{"status":"Acquired","leaseId":"L1","token":3,"attempts":2,"expiresAt":"2026-03-01T03:00:00.123456Z","remainingMs":60000}`},
		{"lost", "POST", "renew", `{"key":"k","leaseId":"L1"}`, &stub{answer: lease.Answer{Status: lease.Lost}},
			`{"status":"LeaseLost","attempts":0}`},
		{"marked", "POST", "mark-processed", `{"key":"k","leaseId":"L1"}`, &stub{status: lease.Processed}, `{"status":"Processed"}`},
		{"released", "POST", "release", `{"key":"k","leaseId":"L1"}`, &stub{status: lease.Released}, `{"status":"Released"}`},
		{"unknown", "GET", "k", "", &stub{record: lease.Record{Status: lease.Unknown}}, `{"status":"Unknown","attempts":0}`},
		{"held", "GET", "k", "", &stub{record: lease.Record{Status: lease.Busy, Owner: "a \"b\"", Token: 4, Attempts: 2, FirstSeen: moon, LastSeen: moon, LeaseUntil: moon}},
			`{"status":"Busy","owner":"a \"b\"","token":4,"attempts":2,"firstSeen":"2026-03-01T03:00:00.123456Z","lastSeen":"2026-03-01T03:00:00.123456Z","leaseUntil":"2026-03-01T03:00:00.123456Z"}`},
		{"waits", "GET", "k", "", &stub{record: lease.Record{Status: lease.Released, Token: 1, Attempts: 1, FirstSeen: moon, LastSeen: moon, DueAt: moon, PayloadHash: "sha256:a"}},
			`{"status":"Released","token":1,"attempts":1,"firstSeen":"2026-03-01T03:00:00.123456Z","lastSeen":"2026-03-01T03:00:00.123456Z","dueAt":"2026-03-01T03:00:00.123456Z","payloadHash":"sha256:a"}`},
		{"conflicts in a batch", "POST", "try-begin/batch", `{"items":[{"key":"a"},{"key":"b"}]}`, &stub{answer: lease.Answer{Status: lease.Processed, Attempts: 1, Conflict: true}},
			`{"items":[{"status":"Processed","attempts":1,"conflict":true},{"status":"Processed","attempts":1,"conflict":true}]}`},
		{"batch", "POST", "try-begin/batch", `{"items":[{"key":"a"},{"key":"b"}]}`, &stub{answer: lease.Answer{Status: lease.Processed, Attempts: 1}},
			`{"items":[{"status":"Processed","attempts":1},{"status":"Processed","attempts":1}]}`},
		{"empty batch", "POST", "try-begin/batch", `{"items":[]}`, &stub{}, `{"items":[]}`},
		{"marks", "POST", "mark-processed/batch", `{"items":[{"key":"a","leaseId":"1"},{"key":"b","leaseId":"2"}]}`, &stub{status: lease.Lost},
			`{"items":[{"status":"LeaseLost"},{"status":"LeaseLost"}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := &notes{}
			r := send(newServer(t, tt.store, Config{Observer: w}), tt.method, "/v1/inbox/"+tt.path, tt.body)
			if got := bodyOf(t, r); r.StatusCode != 200 || got != tt.want || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("the answer is %d %s\nwant 200 %s", r.StatusCode, got, tt.want)
			}
			if len(w.events) != 1 || w.events[0].Err != nil || !strings.Contains(tt.want, w.events[0].Status) && w.events[0].Status != "200" {
				t.Errorf("observed is %+v", w.events)
			}
		})
	}
}

func TestServer_Asks(t *testing.T) {
	t.Parallel()
	s := &stub{answer: lease.Answer{Status: lease.Processed}, status: lease.Released}
	h := newServer(t, s, Config{})
	send(h, "POST", "/v1/inbox/try-begin", `{"key":"k\u00e9","owner":"o","leaseSeconds":45.5,"maxAttempts":3,"payloadHash":"sha256:a","later":{"x":1}}`)
	send(h, "POST", "/v1/inbox/try-begin/batch", `{"items":[{"key":"ké","owner":"o","leaseSeconds":45.5,"maxAttempts":3,"payloadHash":"sha256:a"}]}`)
	want := lease.Request{Key: "ké", Owner: "o", TTL: 45500 * time.Millisecond, MaxAttempts: 3, PayloadHash: "sha256:a"}
	if len(s.requests) != 2 || s.requests[0] != want || s.requests[1] != want {
		t.Errorf("asked is %+v, want %+v", s.requests, want)
	}
	send(h, "POST", "/v1/inbox/renew", `{"key":"k","leaseId":"L","leaseSeconds":100}`)
	send(h, "POST", "/v1/inbox/mark-processed", `{"key":"k","leaseId":"L"}`)
	send(h, "POST", "/v1/inbox/release", `{"key":"k","leaseId":"L"}`)
	send(h, "POST", "/v1/inbox/release", `{"key":"k","leaseId":"L","uncounted":true}`)
	for _, l := range s.leases {
		if l != (lease.Lease{Key: "k", ID: "L"}) {
			t.Errorf("asked is %+v", l)
		}
	}
	if len(s.leases) != 4 || s.ttl != 100*time.Second || !slices.Equal(s.released, []lease.Release{{}, {Uncounted: true}}) {
		t.Errorf("asked is %d times, with %v and %v", len(s.leases), s.ttl, s.released)
	}
}

// TestLeaseSeconds (AS-46): what a request asks for is clamped, and reported.
func TestLeaseSeconds(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[string]time.Duration{
		`null`: 60 * time.Second, `0`: 60 * time.Second, `5`: 30 * time.Second, `0.001`: 30 * time.Second, `30`: 30 * time.Second,
		`30.25`: 30250 * time.Millisecond, `120`: 120 * time.Second, `9999`: 120 * time.Second, `1e300`: 120 * time.Second,
	} {
		s := &stub{}
		send(newServer(t, s, Config{}), "POST", "/v1/inbox/try-begin", `{"key":"k","leaseSeconds":`+seconds+`}`)
		if len(s.requests) != 1 || s.requests[0].TTL != want {
			t.Errorf("leaseSeconds %s asks for %+v, want %v", seconds, s.requests, want)
		}
	}
}

// TestServer_WaitSeconds: a wait is as long as was asked for, whatever a lease may be, up to a day.
func TestServer_WaitSeconds(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[string]time.Duration{
		`null`: 0, `0`: 0, `0.25`: 250 * time.Millisecond, `5`: 5 * time.Second, `121`: 121 * time.Second, `86400`: 24 * time.Hour,
	} {
		s := &stub{status: lease.Released}
		send(newServer(t, s, Config{}), "POST", "/v1/inbox/release", `{"key":"k","leaseId":"L","waitSeconds":`+seconds+`}`)
		if !slices.Equal(s.released, []lease.Release{{Wait: want}}) {
			t.Errorf("waitSeconds %s asks for %+v, want %v", seconds, s.released, want)
		}
	}
}

// TestMalformed (AS-48): what is refused, with which code, and that nothing is disclosed that should
// not be.
func TestMalformed(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 513)
	for _, tt := range []struct {
		name, method, path, body string
		code                     int
		words                    string
	}{
		{"not JSON", "POST", "try-begin", `{"key":"s3cr3t`, 400, "not JSON"},
		{"nothing", "POST", "try-begin", ``, 400, "not JSON"},
		{"something behind it", "POST", "try-begin", `{"key":"k"} s3cr3t`, 400, "not JSON"},
		{"an array", "POST", "try-begin", `["s3cr3t"]`, 400, "JSON object"},
		{"no key", "POST", "try-begin", `{}`, 400, "key is required"},
		{"null", "POST", "try-begin", `null`, 400, "key is required"},
		{"a key that is a number", "POST", "try-begin", `{"key":123}`, 400, "key is not of the type"},
		{"a long key", "POST", "try-begin", `{"key":"` + long + `"}`, 400, "key has 513 bytes, the limit is 512"},
		{"a long owner", "POST", "try-begin", `{"key":"k","owner":"` + long + `"}`, 400, "owner has 513 bytes, the limit is 255"},
		{"a NUL", "POST", "try-begin", `{"key":"a\u0000b"}`, 400, "holds a NUL"},
		{"not UTF-8", "POST", "try-begin", "{\"key\":\"a\xffb\"}", 400, "not valid Unicode"},
		{"half a surrogate", "POST", "try-begin", `{"key":"a\ud800b"}`, 400, "not valid Unicode"},
		{"the other half", "POST", "try-begin", `{"key":"\\\udc00"}`, 400, "not valid Unicode"},
		{"negative seconds", "POST", "try-begin", `{"key":"k","leaseSeconds":-1}`, 400, "leaseSeconds is negative"},
		{"too many seconds to count", "POST", "try-begin", `{"key":"k","leaseSeconds":1e999}`, 400, "leaseSeconds is not of the type"},
		{"negative attempts", "POST", "try-begin", `{"key":"k","maxAttempts":-1}`, 400, "maxAttempts is -1"},
		{"a long hash", "POST", "try-begin", `{"key":"k","payloadHash":"` + long + `"}`, 400, "payloadHash has 513 bytes, the limit is 64"},
		{"a hash with a blank", "POST", "try-begin", `{"key":"k","payloadHash":"s3cr3t x"}`, 400, "payloadHash holds something else than visible ASCII"},
		{"a hash that is not ASCII", "POST", "try-begin/batch", `{"items":[{"key":"k","payloadHash":"é"}]}`, 400, "items[0]: payloadHash holds something else than visible ASCII"},
		{"a short request id", "POST", "try-begin", `{"key":"k","requestId":"s3cr3t"}`, 400, "requestId has 6 bytes"},
		{"a negative wait", "POST", "release", `{"key":"k","leaseId":"L","waitSeconds":-1}`, 400, "waitSeconds is -1, the range is 0 to 86400"},
		{"a long wait", "POST", "release", `{"key":"k","leaseId":"L","waitSeconds":86400.5}`, 400, "waitSeconds is 86400.5, the range is 0 to 86400"},
		{"a wait too long to count", "POST", "release", `{"key":"k","leaseId":"L","waitSeconds":1e300}`, 400, "waitSeconds is 1e+300, the range is 0 to 86400"},
		{"a wait that is a text", "POST", "release", `{"key":"k","leaseId":"L","waitSeconds":"s3cr3t"}`, 400, "waitSeconds is not of the type"},
		{"no lease", "POST", "mark-processed", `{"key":"k"}`, 400, "leaseId has 0 bytes"},
		{"a long lease", "POST", "release", `{"key":"k","leaseId":"` + long + `"}`, 400, "leaseId has 513 bytes"},
		{"large", "POST", "try-begin", `{"key":"k","x":"` + strings.Repeat("x", 3000) + `"}`, 413, "more than 2048 bytes"},
		{"a lease id with a NUL", "POST", "release", `{"key":"k","leaseId":"a\u0000"}`, 400, "leaseId"},
		{"a lease id with a NUL in a batch", "POST", "mark-processed/batch", `{"items":[{"key":"k","leaseId":"\u0000"}]}`, 400, "leaseId"},
		{"a bad item", "POST", "try-begin/batch", `{"items":[{"key":"k"},{}]}`, 400, "items[1]: key is required"},
		{"a key twice", "POST", "try-begin/batch", `{"items":[{"key":"k"},{"key":"k"}]}`, 400, "items[1].key is in the batch twice"},
		{"no such operation", "POST", "steal", `{"key":"k"}`, 404, "no such operation"},
		{"a method", "DELETE", "k", ``, 405, "GET, POST"},
		{"no key in the path", "GET", "", ``, 400, "key is required"},
		{"a path that is not UTF-8", "GET", "%ff", ``, 400, "not UTF-8"},
		{"a path with a NUL", "GET", "a%00", ``, 400, "NUL"},
		{"a long path", "GET", long, ``, 400, "513 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, w := &stub{}, &notes{}
			wantProblem(t, send(newServer(t, s, Config{MaxBodyLen: 2048, Observer: w}), tt.method, "/v1/inbox/"+tt.path, tt.body), tt.code, tt.words)
			if len(s.requests)+len(s.leases)+len(s.keys) > 0 {
				t.Error("the store was asked")
			}
			for _, e := range w.events {
				if e.Status != fmt.Sprint(tt.code) || e.Err != nil {
					t.Errorf("observed is %+v", e)
				}
			}
		})
	}
	h := newServer(t, &stub{}, Config{})
	wantProblem(t, send(h, "POST", "/v1/inbox/try-begin", `{"key":"k"}`, "Content-Type", "text/plain"), 415, "application/json")
	wantProblem(t, send(h, "GET", "/v2/inbox/k", ""), 404, "openapi.json")
	wantProblem(t, send(h, "POST", "/health/live", "{}"), 405, "GET")
	many := `{"items":[` + strings.Repeat(`{},`, 1000) + `{}]}`
	wantProblem(t, send(h, "POST", "/v1/inbox/try-begin/batch", many), 413, "more than 1000 items")
}

func TestServer_TakesContentTypes(t *testing.T) {
	t.Parallel()
	h := newServer(t, &stub{}, Config{})
	if r := send(h, "POST", "/v1/inbox/try-begin", `{"key":"k"}`, "Content-Type", "Application/JSON; charset=utf-8"); r.StatusCode != 200 {
		t.Errorf("the answer is %d", r.StatusCode)
	}
}

// TestServer_Faults: what the store says is for the log, and what it is decides the code.
func TestServer_Faults(t *testing.T) {
	t.Parallel()
	secret := errors.New("connect to postgres://app:s3cr3t@db")
	for name, tt := range map[string]struct {
		store *stub
		code  int
		words string
	}{
		"unavailable": {&stub{err: waybill.UnavailableError(secret)}, 503, "store does not answer"},
		"conflict":    {&stub{err: waybill.ConflictError(secret)}, 503, "store does not answer"},
		"too slow":    {&stub{err: fmt.Errorf("s3cr3t: %w", context.DeadlineExceeded)}, 503, "store does not answer"},
		"broken":      {&stub{err: secret}, 500, "server failed"},
		"panic":       {&stub{panics: "s3cr3t"}, 500, "server failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for path, body := range map[string]string{
				"try-begin": `{"key":"k"}`, "renew": `{"key":"k","leaseId":"l"}`, "mark-processed": `{"key":"k","leaseId":"l"}`,
				"release": `{"key":"k","leaseId":"l"}`, "try-begin/batch": `{"items":[{"key":"k"}]}`,
				"mark-processed/batch": `{"items":[{"key":"k","leaseId":"l"}]}`,
			} {
				s, w := &stub{err: tt.store.err, panics: tt.store.panics}, &notes{}
				r := send(newServer(t, s, Config{Observer: w}), "POST", "/v1/inbox/"+path, body)
				wantProblem(t, r, tt.code, tt.words)
				if len(w.events) != 1 || w.events[0].Err == nil || w.events[0].Status != fmt.Sprint(tt.code) || len(w.ends) != 1 || w.ends[0] == nil {
					t.Errorf("observed is %+v, %v", w.events, w.ends)
				}
				if again := r.Header.Get("Retry-After"); (again != "") != (tt.code == 503) {
					t.Errorf("Retry-After is %q", again)
				}
			}
		})
	}
}

func TestServer_Health(t *testing.T) {
	t.Parallel()
	s := &stub{}
	h := newServer(t, s, Config{Tokens: []Token{mustToken(t, "a")}})
	for _, path := range []string{"/health/live", "/health/ready", "/v1/openapi.json"} {
		if r := send(h, "GET", path, ""); r.StatusCode != 200 {
			t.Errorf("GET %s = %d, want 200 without a token", path, r.StatusCode)
		}
	}
	s.err = waybill.UnavailableError(errors.New("s3cr3t"))
	wantProblem(t, send(h, "GET", "/health/ready", ""), 503, "store does not answer")
	if r := send(h, "GET", "/health/live", ""); r.StatusCode != 200 {
		t.Errorf("live is %d while the store is away, want 200", r.StatusCode)
	}
}

// TestPaths (AS-45): keys with any characters come through the path as they are.
func TestPaths(t *testing.T) {
	t.Parallel()
	s := &stub{}
	server := httptest.NewServer(newServer(t, s, Config{}))
	defer server.Close()
	var want []string
	for _, key := range awkwardKeys {
		for _, path := range []string{url.PathEscape(key), strings.ReplaceAll(url.QueryEscape(key), "+", "%20")} {
			r, err := bareClient.Get(server.URL + "/v1/inbox/" + path)
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			if r.StatusCode != 200 {
				t.Errorf("GET %s = %d", path, r.StatusCode)
			}
			want = append(want, key)
		}
	}
	if !slices.Equal(s.keys, want) {
		t.Errorf("read is %q\nwant %q", s.keys, want)
	}
}

var awkwardKeys = []string{
	"a:b:c", "a/b", "//", "../x", "..", "a%2Fb", "100%", "%25", "a b", "a+b", "ключ-キー-🔑", "a?b#c", "a&b=c", "\"q\"", "try-begin", "a\nb",
	strings.Repeat("x", 512),
}

// TestServer_TakesBack: a lease that nobody will know of is given back, uncounted.
func TestServer_TakesBack(t *testing.T) {
	t.Parallel()
	for path, body := range map[string]string{"try-begin": `{"key":"k"}`, "try-begin/batch": `{"items":[{"key":"k"}]}`} {
		ctx, cancel := context.WithCancel(t.Context())
		s := &stub{answer: lease.Answer{Status: lease.Acquired, LeaseID: "L", Token: 7}}
		s.wait = func(context.Context) { cancel() } // the client goes while the store is at work
		r := httptest.NewRequestWithContext(ctx, "POST", "/v1/inbox/"+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		newServer(t, s, Config{}).ServeHTTP(httptest.NewRecorder(), r)
		if len(s.leases) != 1 || s.leases[0] != (lease.Lease{Key: "k", ID: "L", Token: 7}) || s.released[0] != (lease.Release{Uncounted: true}) {
			t.Errorf("%s: released is %+v, %v, want the lease, uncounted", path, s.leases, s.released)
		}
	}
}

// TestServer_KeepsWhatIsAskedForAgain: a client that has gone may have come again, with the id of
// its request, and have the lease.
func TestServer_KeepsWhatIsAskedForAgain(t *testing.T) {
	t.Parallel()
	const id = `"requestId":"0123456789abcdef"`
	for path, body := range map[string]string{"try-begin": `{"key":"k",` + id + `}`, "try-begin/batch": `{"items":[{"key":"k",` + id + `}]}`} {
		ctx, cancel := context.WithCancel(t.Context())
		s := &stub{answer: lease.Answer{Status: lease.Acquired, LeaseID: "0123456789abcdef", Token: 7}}
		s.wait = func(context.Context) { cancel() }
		r := httptest.NewRequestWithContext(ctx, "POST", "/v1/inbox/"+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		newServer(t, s, Config{}).ServeHTTP(httptest.NewRecorder(), r)
		if len(s.requests) != 1 || s.requests[0].RequestID != "0123456789abcdef" || len(s.leases) != 0 {
			t.Errorf("%s: asked is %+v, released is %+v, want the id and nothing", path, s.requests, s.leases)
		}
	}
}

// TestServer_StoreTimeout: the store has so long, whatever the client does.
func TestServer_StoreTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &stub{err: waybill.UnavailableError(context.DeadlineExceeded)}
		s.wait = func(ctx context.Context) { <-ctx.Done() }
		began := time.Now()
		wantProblem(t, send(newServer(t, s, Config{StoreTimeout: 3 * time.Second}), "POST", "/v1/inbox/try-begin", `{"key":"k"}`), 503, "does not answer")
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it took %v, want 3s", took)
		}
	})
}

func TestServer_Traces(t *testing.T) {
	t.Parallel()
	w := &notes{}
	h := newServer(t, &stub{}, Config{Observer: w})
	parent := "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	send(h, "GET", "/v1/inbox/k", "", "traceparent", parent, "tracestate", "a=b")
	send(h, "POST", "/v1/inbox/try-begin", `{"key":"k"}`, "traceparent", strings.Repeat("0", 513))
	want := []waybill.Message{{Type: "read", TraceParent: parent, TraceState: "a=b"}, {Type: "try-begin"}}
	for i := range want {
		if got := w.starts[i]; got.Type != want[i].Type || got.TraceParent != want[i].TraceParent || got.TraceState != want[i].TraceState {
			t.Errorf("the operation begins with %+v, want %+v", got, want[i])
		}
	}
	if e := w.events[0]; e.Op != observe.OpServe || e.Operation != "read" || e.Count != 1 {
		t.Errorf("observed is %+v", e)
	}
}

func TestConfig_Refuses(t *testing.T) {
	t.Parallel()
	token := mustToken(t, "a")
	for field, cfg := range map[string]Config{
		"Config.MinLease":     {MinLease: time.Microsecond},
		"Config.MaxLease":     {MaxLease: 25 * time.Hour},
		"Config.DefaultLease": {DefaultLease: 121 * time.Second},
		"Config.MaxBodyLen":   {MaxBodyLen: -1},
		"Config.RateLimit":    {RateLimit: -1},
		"Config.StoreTimeout": {StoreTimeout: -1},
		"Token.Name":          {Tokens: []Token{token, token}},
		"Token.SHA256":        {Tokens: []Token{{Name: "b"}}},
	} {
		_, err := NewServer(&stub{}, cfg)
		var invalid *waybill.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: NewServer() = %v", field, err)
		}
	}
	other := token
	other.Name = "b"
	if _, err := NewServer(&stub{}, Config{Tokens: []Token{token, other}}); err == nil {
		t.Error("two tokens with one secret are taken")
	}
	if _, err := NewServer(nil, Config{}); err == nil {
		t.Error("no store is taken")
	}
	if _, err := NewServer(&stub{}, Config{MinLease: 2 * time.Minute, MaxLease: time.Minute}); err == nil {
		t.Error("a least lease above the longest is taken")
	}
}

// unread is a body that must not be read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body is read")
	return 0, io.EOF
}

// TestUnreadBodies: nothing is read of what nobody sends.
func TestUnreadBodies(t *testing.T) {
	t.Parallel()
	token, err := NewToken("a", "s3cr3t-0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, &stub{}, Config{Tokens: []Token{token}})
	for op := range posts {
		r := httptest.NewRequest(http.MethodPost, inboxPath+op, unread{t})
		r.Header.Set("Content-Type", jsonType)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		wantProblem(t, w.Result(), http.StatusUnauthorized, "token")
	}
}

// countedItem counts how many of it are decoded.
type countedItem struct{}

var decodedItems atomic.Int64

func (countedItem) UnmarshalJSON([]byte) error {
	decodedItems.Add(1)
	return nil
}

// TestBatch_CountedWhileDecoded: a batch of too many items is refused when one too many is read, not when
// all of them are.
func TestBatch_CountedWhileDecoded(t *testing.T) {
	t.Parallel()
	body := `{"items":[{}` + strings.Repeat(",{}", 300_000) + `]}`
	before := decodedItems.Load()
	_, err := decode[batchBody[countedItem]]([]byte(body))
	if n := decodedItems.Load() - before; n > lease.MaxBatch || err == nil || refusalOf(err).code != http.StatusRequestEntityTooLarge {
		t.Errorf("decode() = %v with %d items decoded, want 413 and at most %d", err, n, lease.MaxBatch)
	}
}

// TestServer_NotMarked: a mark without effect is no success, also for a client that looks at the
// code alone; our own client still returns the status.
func TestServer_NotMarked(t *testing.T) {
	t.Parallel()
	for status, want := range map[lease.Status]int{
		lease.Unknown: http.StatusNotFound, lease.Lost: http.StatusConflict, lease.Released: http.StatusConflict,
	} {
		w := &notes{}
		h := newServer(t, &stub{status: status}, Config{Observer: w})
		r := send(h, "POST", "/v1/inbox/mark-processed", `{"key":"k","leaseId":"L1"}`)
		if text := bodyOf(t, r); r.StatusCode != want || r.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(text, `"keyStatus":"`+string(status)+`"`) {
			t.Errorf("a mark that is answered with %s is %d %s, want %d", status, r.StatusCode, text, want)
		}
		if len(w.events) != 1 || w.events[0].Err != nil || w.events[0].Status != string(status) {
			t.Errorf("observed is %+v, want the status %s", w.events, status)
		}
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		c, err := NewClient(ClientConfig{URL: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.MarkProcessed(t.Context(), lease.Lease{Key: "k", ID: "L1"}); err != nil || got != status {
			t.Errorf("MarkProcessed() = %v, %v, want %v", got, err, status)
		}
	}
}
