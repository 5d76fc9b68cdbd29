package inboxhttp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
)

func newClient(t *testing.T, cfg ClientConfig) *Client {
	t.Helper()
	c, err := NewClient(cfg)
	if err != nil {
		t.Fatalf("NewClient() = %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// clientOf returns a client of a handler.
func clientOf(t *testing.T, h http.Handler, cfg ClientConfig) *Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	cfg.URL = server.URL
	return newClient(t, cfg)
}

// calls are all the methods of a client.
var calls = map[string]func(context.Context, *Client) error{
	"TryBegin": func(ctx context.Context, c *Client) error {
		_, err := c.TryBegin(ctx, request)
		return err
	},
	"RenewLease": func(ctx context.Context, c *Client) error {
		_, err := c.RenewLease(ctx, held, time.Minute)
		return err
	},
	"MarkProcessed": func(ctx context.Context, c *Client) error {
		_, err := c.MarkProcessed(ctx, held)
		return err
	},
	"ReleaseLease": func(ctx context.Context, c *Client) error {
		_, err := c.ReleaseLease(ctx, held, lease.Release{})
		return err
	},
	"ReadLease": func(ctx context.Context, c *Client) error {
		_, err := c.ReadLease(ctx, "k")
		return err
	},
	"TryBeginAll": func(ctx context.Context, c *Client) error {
		_, err := c.TryBeginAll(ctx, []lease.Request{request})
		return err
	},
	"MarkAllProcessed": func(ctx context.Context, c *Client) error {
		_, err := c.MarkAllProcessed(ctx, []lease.Lease{held})
		return err
	},
}

var (
	request = lease.Request{Key: "k", TTL: time.Minute}
	held    = lease.Lease{Key: "k", ID: "L"}
)

// TestClient_FailsClosed: without a proper answer there is an error, of the kind that says what
// to do, and it tells neither token nor key.
func TestClient_FailsClosed(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	answers := func(code int, body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		})
	}
	for name, tt := range map[string]struct {
		handler http.Handler
		kind    waybill.Kind
	}{
		"nobody there":           {nil, waybill.Unavailable},
		"an error page":          {answers(502, "<html>"), waybill.Unavailable},
		"a page":                 {answers(200, "<html>"), waybill.Unavailable},
		"an empty answer":        {answers(200, ""), waybill.Unavailable},
		"no status":              {answers(200, "{}"), waybill.Unavailable},
		"an unknown status":      {answers(200, `{"status":"Perhaps","items":[{"status":"Perhaps"}]}`), waybill.Unavailable},
		"too few answers":        {answers(200, `{"status":"","items":[]}`), waybill.Unavailable},
		"elsewhere":              {answers(307, ""), waybill.Unavailable},
		"the token is not known": {answers(401, `{"detail":"a bearer token is required"}`), waybill.Unavailable},
		"the token is limited":   {answers(403, ""), waybill.Unavailable},
		"another service":        {answers(404, ""), waybill.Unavailable},
		"a wrong request":        {answers(400, `{"detail":"key is odd"}`), waybill.Permanent},
		"too large":              {answers(413, ""), waybill.Permanent},
		"cut off": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"status":`)
		}), waybill.Unavailable},
		"the connection is cut": {http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), waybill.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := ClientConfig{URL: "http://" + closed.Addr().String(), Token: "s3cr3t", MaxRetries: waybill.NoRetries, Timeout: time.Minute}
			c := newClient(t, cfg)
			if tt.handler != nil {
				c = clientOf(t, tt.handler, cfg)
			}
			for method, call := range calls {
				err := call(t.Context(), c)
				if err == nil || waybill.KindOf(err) != tt.kind {
					t.Errorf("%s() = %v, want an error that is %v", method, err, tt.kind)
				} else if strings.Contains(err.Error(), "s3cr3t") || strings.Contains(err.Error(), inboxPath) {
					t.Errorf("%s() = %v, which tells too much", method, err)
				}
			}
		})
	}
}

// TestClient_Retries: what may pass is tried again, the rest is not.
func TestClient_Retries(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ code, retries, want int }{
		{500, 2, 3}, {502, 2, 3}, {503, 0, 3}, {503, 1, 2}, {503, waybill.NoRetries, 1}, {400, 2, 1}, {401, 2, 1}, {403, 2, 1}, {429, 2, 1}, {302, 2, 1},
	} {
		for method, call := range calls {
			t.Run(fmt.Sprintf("%s, %d, %d retries", method, tt.code, tt.retries), func(t *testing.T) {
				t.Parallel()
				var asked atomic.Int32
				c := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					asked.Add(1)
					w.WriteHeader(tt.code)
				}), ClientConfig{MaxRetries: tt.retries, Timeout: time.Minute})
				if err := call(t.Context(), c); err == nil || int(asked.Load()) != tt.want {
					t.Errorf("asked is %d times, want %d (%v)", asked.Load(), tt.want, err)
				}
			})
		}
	}
}

// TestClient_RetrySucceeds: an attempt whose connection was cut is repeated.
func TestClient_RetrySucceeds(t *testing.T) {
	t.Parallel()
	s := &stub{answer: lease.Answer{Status: lease.Acquired, LeaseID: "L", Token: 1, Attempts: 1, ExpiresAt: moon, Remaining: time.Hour}}
	server := newServer(t, s, Config{})
	var asked atomic.Int32
	c := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) < 3 {
			panic(http.ErrAbortHandler)
		}
		server.ServeHTTP(w, r)
	}), ClientConfig{Timeout: time.Minute})
	a, err := c.TryBegin(t.Context(), request)
	if err != nil || a.Status != lease.Acquired || a.LeaseID != "L" || a.Token != 1 || a.Attempts != 1 || !a.ExpiresAt.Equal(moon.Truncate(time.Microsecond)) {
		t.Errorf("TryBegin() = %+v, %v", a, err)
	}
	if a.Remaining >= time.Hour || a.Remaining < 30*time.Minute {
		t.Errorf("%v remains, want an hour less what it took", a.Remaining)
	}
}

// TestClient_RepeatsTheRequest: the repetition of a request for a key names the same request, the
// next one another, and what the caller has named keeps its name.
func TestClient_RepeatsTheRequest(t *testing.T) {
	t.Parallel()
	s := &stub{answer: lease.Answer{Status: lease.Busy}}
	server := newServer(t, s, Config{})
	var asked atomic.Int32
	c := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1)%2 == 0 {
			server.ServeHTTP(w, r)
			return
		}
		server.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler) // the answer is lost
	}), ClientConfig{Timeout: time.Minute})
	named := request
	named.RequestID = "named-by-the-caller"
	for i, call := range []func() error{
		func() error { _, err := c.TryBegin(t.Context(), request); return err },
		func() error { _, err := c.TryBegin(t.Context(), request); return err },
		func() error { _, err := c.TryBegin(t.Context(), named); return err },
		func() error { _, err := c.TryBeginAll(t.Context(), []lease.Request{request}); return err },
		func() error { _, err := c.TryBeginAll(t.Context(), []lease.Request{named}); return err },
	} {
		if err := call(); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	var ids []string
	for i := range s.requests {
		ids = append(ids, s.requests[i].RequestID)
	}
	if len(ids) != 10 || ids[0] == "" || ids[0] == ids[2] || ids[2] == ids[6] || ids[4] != named.RequestID || ids[8] != named.RequestID {
		t.Fatalf("asked is with the ids %q, want a new one for each call, or the caller's", ids)
	}
	for i := 0; i < len(ids); i += 2 {
		if ids[i] != ids[i+1] {
			t.Errorf("asked again is with the id %q, want %q", ids[i+1], ids[i])
		}
	}
}

func TestClient_Timeout(t *testing.T) {
	t.Parallel()
	silent := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	c := clientOf(t, silent, ClientConfig{Timeout: 50 * time.Millisecond})
	if _, err := c.ReadLease(t.Context(), "k"); !waybill.IsUnavailable(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ReadLease() = %v, want unavailable because of the time", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c = clientOf(t, silent, ClientConfig{})
	if _, err := c.TryBegin(ctx, request); !waybill.IsUnavailable(err) || !errors.Is(err, context.Canceled) {
		t.Errorf("TryBegin() = %v, want unavailable because of the caller", err)
	}
}

func TestClient_TooMany(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{"": time.Second, "7": 7 * time.Second, "soon": time.Second} {
		c := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(429)
		}), ClientConfig{Timeout: time.Minute})
		_, err := c.TryBegin(t.Context(), request)
		if after, ok := waybill.AfterOf(err); !ok || after != want {
			t.Errorf("with Retry-After %q: %v, %v, want %v", header, err, after, want)
		}
	}
	c := clientOf(t, newServer(t, &stub{}, Config{RateLimit: 1}), ClientConfig{})
	_, _ = c.ReadLease(t.Context(), "k")
	_, err := c.ReadLease(t.Context(), "k")
	if after, ok := waybill.AfterOf(err); !ok || after > time.Second {
		t.Errorf("the second request: %v, %v", err, after)
	}
}

func TestClient_SendsToken(t *testing.T) {
	t.Parallel()
	server := newServer(t, &stub{record: lease.Record{Status: lease.Unknown}}, Config{Tokens: []Token{mustToken(t, "a")}})
	c := clientOf(t, server, ClientConfig{Token: secret + "a"})
	if r, err := c.ReadLease(t.Context(), "k"); err != nil || r.Status != lease.Unknown {
		t.Errorf("ReadLease() = %+v, %v", r, err)
	}
}

// TestClientPaths (AS-45): keys with any characters come through a client as they are.
func TestClientPaths(t *testing.T) {
	t.Parallel()
	s := &stub{record: lease.Record{Status: lease.Unknown}, answer: lease.Answer{Status: lease.Processed}}
	c := clientOf(t, newServer(t, s, Config{}), ClientConfig{Timeout: time.Minute})
	for i, key := range awkwardKeys {
		if _, err := c.ReadLease(t.Context(), key); err != nil || s.keys[i] != key {
			t.Errorf("ReadLease(%q) = %v, read is %q", key, err, s.keys)
		}
		if _, err := c.TryBegin(t.Context(), lease.Request{Key: key, TTL: time.Minute}); err != nil || s.requests[i].Key != key {
			t.Errorf("TryBegin(%q) = %v, asked is %+v", key, err, s.requests)
		}
	}
}

// TestClient_WaitsAndPayloads: a hash and a wait come to the store as they are, and what it says of
// them comes back.
func TestClient_WaitsAndPayloads(t *testing.T) {
	t.Parallel()
	record := lease.Record{Status: lease.Released, DueAt: moon.UTC().Truncate(time.Microsecond), PayloadHash: "sha256:b"}
	s := &stub{answer: lease.Answer{Status: lease.Processed, Conflict: true}, status: lease.Released, record: record}
	c := clientOf(t, newServer(t, s, Config{}), ClientConfig{Timeout: time.Minute})
	named := request
	named.PayloadHash = "sha256:a"
	a, err := c.TryBegin(t.Context(), named)
	all, errAll := c.TryBeginAll(t.Context(), []lease.Request{named})
	if err != nil || errAll != nil || !a.Conflict || !all[0].Conflict || s.requests[0].PayloadHash != "sha256:a" || s.requests[1].PayloadHash != "sha256:a" {
		t.Errorf("TryBegin() = %+v, %v, TryBeginAll() = %+v, %v, asked is %+v", a, err, all, errAll, s.requests)
	}
	for _, r := range []lease.Release{{Wait: lease.MaxTTL}, {Wait: 1234567 * time.Microsecond, Uncounted: true}, {}} {
		_, err := c.ReleaseLease(t.Context(), held, r)
		if got := s.released[len(s.released)-1]; err != nil || got != r {
			t.Errorf("ReleaseLease(%+v) asks for %+v, %v", r, got, err)
		}
	}
	if got, err := c.ReadLease(t.Context(), "k"); err != nil || got != record {
		t.Errorf("ReadLease() = %+v, %v, want %+v", got, err, record)
	}
}

// TestClient_OlderServer: one that knows neither waits nor payloads answers as it always did.
func TestClient_OlderServer(t *testing.T) {
	t.Parallel()
	c := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, map[string]string{
			inboxPath + "try-begin": `{"status":"Processed","attempts":1}`, inboxPath + "release": `{"status":"Released"}`,
			inboxPath + "k": `{"status":"Released","attempts":1}`,
		}[r.URL.Path])
	}), ClientConfig{Timeout: time.Minute})
	named := request
	named.PayloadHash = "sha256:a"
	if a, err := c.TryBegin(t.Context(), named); err != nil || a != (lease.Answer{Status: lease.Processed, Attempts: 1}) {
		t.Errorf("TryBegin() = %+v, %v, want no conflict", a, err)
	}
	if status, err := c.ReleaseLease(t.Context(), held, lease.Release{Wait: time.Hour}); err != nil || status != lease.Released {
		t.Errorf("ReleaseLease() = %v, %v", status, err)
	}
	if r, err := c.ReadLease(t.Context(), "k"); err != nil || r != (lease.Record{Status: lease.Released, Attempts: 1}) {
		t.Errorf("ReadLease() = %+v, %v, want no wait", r, err)
	}
}

// TestClient_RefusesFirst: what no store takes is not sent.
func TestClient_RefusesFirst(t *testing.T) {
	t.Parallel()
	c := clientOf(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }), ClientConfig{})
	ctx := t.Context()
	_, begin := c.TryBegin(ctx, lease.Request{})
	_, renew := c.RenewLease(ctx, held, 0)
	_, renewKey := c.RenewLease(ctx, lease.Lease{}, time.Minute)
	_, mark := c.MarkProcessed(ctx, lease.Lease{})
	_, release := c.ReleaseLease(ctx, lease.Lease{}, lease.Release{Uncounted: true})
	_, read := c.ReadLease(ctx, "")
	_, wait := c.ReleaseLease(ctx, held, lease.Release{Wait: -1})
	_, beginAll := c.TryBeginAll(ctx, []lease.Request{request, request})
	_, markAll := c.MarkAllProcessed(ctx, make([]lease.Lease, 1))
	var invalid *waybill.InvalidError
	for i, err := range []error{begin, renew, renewKey, mark, release, wait, read, beginAll, markAll} {
		if !errors.As(err, &invalid) {
			t.Errorf("call %d returns %v, want an InvalidError", i, err)
		}
	}
	if a, err := c.TryBeginAll(ctx, nil); len(a) != 0 || err != nil {
		t.Errorf("TryBeginAll(nothing) = %v, %v", a, err)
	}
	if n, err := c.PurgeLeases(ctx, 0, 1); n != 0 || err != nil {
		t.Errorf("PurgeLeases() = %d, %v", n, err)
	}
}

func TestNewClient_Refuses(t *testing.T) {
	t.Parallel()
	for _, cfg := range []ClientConfig{
		{}, {URL: "inbox:8080"}, {URL: "ftp://inbox"}, {URL: "http://"}, {URL: "http://a:s3cr3t@inbox"}, {URL: "http://inbox?x=s3cr3t"}, {URL: "http://in box"},
		{URL: "http://inbox", Timeout: -1}, {URL: "http://inbox", MaxRetries: -2},
	} {
		_, err := NewClient(cfg)
		var invalid *waybill.InvalidError
		if !errors.As(err, &invalid) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("NewClient(%+v) = %v", cfg, err)
		}
	}
}
