package httpbroker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/contract"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// opened returns a broker with one endpoint, "acme", at an URL.
func opened(t *testing.T, url string, change func(*Config)) *Broker {
	t.Helper()
	cfg := Config{
		Endpoints:     []Endpoint{{Name: "acme", URL: url, Secrets: []Secret{vectorSecret}}},
		AllowNetworks: loopback,
	}
	if change != nil {
		change(&cfg)
	}
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// serving returns the URL of a server with a handler.
func serving(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func out(msgs ...waybill.Message) []contract.Outgoing {
	list := make([]contract.Outgoing, len(msgs))
	for i := range msgs {
		msgs[i].Complete()
		list[i] = contract.Outgoing{Message: &msgs[i], DedupID: msgs[i].ID}
	}
	return list
}

func send(t *testing.T, b *Broker, msgs ...waybill.Message) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return b.Publisher().Send(ctx, out(msgs...))()
}

var order = waybill.Message{ID: "1", Source: "shop", Topic: "order.placed", Payload: []byte(`{"total": 12}`)}

func TestSender_Answers(t *testing.T) {
	t.Parallel()
	const never = time.Duration(-1)
	for _, c := range []struct {
		code       int
		retryAfter string
		kind       waybill.Kind
		after      time.Duration // of RetryAfter; never: none
	}{
		{code: 201, kind: -1},
		{code: 301, kind: waybill.Transient, after: never},
		{code: 400, kind: waybill.Transient, after: never},
		{code: 401, kind: waybill.Transient, after: never},
		{code: 404, kind: waybill.Transient, after: never},
		{code: 408, kind: waybill.Transient, after: never},
		{code: 410, kind: waybill.Permanent, after: never},
		{code: 413, kind: waybill.Permanent, after: never},
		{code: 425, kind: waybill.Transient, after: never},
		{code: 429, kind: waybill.Unavailable, after: never},
		{code: 429, retryAfter: "7", kind: waybill.Unavailable, after: never},
		{code: 500, kind: waybill.Transient, after: never},
		{code: 502, kind: waybill.Unavailable, after: never},
		{code: 503, kind: waybill.Unavailable, after: never},
		{code: 503, retryAfter: "7", kind: waybill.Unavailable, after: 7 * time.Second},
		{code: 503, retryAfter: "0", kind: waybill.Unavailable, after: time.Millisecond},
		{code: 503, retryAfter: "9999999", kind: waybill.Unavailable, after: maxRetryAfter},
		{code: 503, retryAfter: "soon", kind: waybill.Unavailable, after: never},
		{code: 504, kind: waybill.Unavailable, after: never},
	} {
		t.Run(fmt.Sprint(c.code, c.retryAfter), func(t *testing.T) {
			t.Parallel()
			b := opened(t, serving(t, func(w http.ResponseWriter, _ *http.Request) {
				if c.retryAfter != "" {
					w.Header().Set("Retry-After", c.retryAfter)
				}
				w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
				w.WriteHeader(c.code)
				io.WriteString(w, "SECRET ANSWER")
			}), nil)
			err := send(t, b, order)[0]
			if c.kind < 0 {
				if err != nil {
					t.Errorf("Send() = %v, want nil", err)
				}
				return
			}
			if err == nil || waybill.KindOf(err) != c.kind || errors.Is(err, contract.ErrConnectionLost) {
				t.Fatalf("Send() = %v of kind %v, want %v", err, waybill.KindOf(err), c.kind)
			}
			after, asked := waybill.AfterOf(err)
			if !asked {
				after = never
			}
			if after != c.after {
				t.Errorf("the message waits %v, want %v", after, c.after)
			}
			if strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "http://") {
				t.Errorf("the error %q shows the response or an URL", err)
			}
		})
	}
}

func TestRetryAfter_Date(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"Fri, 02 Jan 2026 03:05:05 GMT": time.Minute,
		"Fri, 02 Jan 2026 03:00:00 GMT": 0,
		"Fri, 02 Jan 2099 03:00:00 GMT": maxRetryAfter,
	} {
		if got, ok := retryAfter(http.Header{"Retry-After": {text}}, now); !ok || got != want {
			t.Errorf("retryAfter(%s) = %v, %v, want %v", text, got, ok, want)
		}
	}
}

// TestSender_Rest: an endpoint that has asked for rest is left alone by all that is sent then.
func TestSender_Rest(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	requests := 0
	b := opened(t, serving(t, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		requests++
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}), nil)
	for range 3 {
		if err := send(t, b, order)[0]; !waybill.IsUnavailable(err) {
			t.Errorf("Send() = %v, want it unavailable", err)
		}
	}
	if requests != 1 {
		t.Errorf("%d requests reached the endpoint, want the first one", requests)
	}
}

// TestSender_Unanswered: who is not there, does not answer, or hangs up is unavailable; a message
// may be what ended the connection only in the last case.
func TestSender_Unanswered(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	t.Cleanup(func() { close(free) })
	silent := serving(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
		case <-free:
		}
	})
	hangsUp := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			conn.Close()
		}
	})
	for _, c := range []struct {
		name, url      string
		lost, deadline bool
	}{
		{"nobody listens", "http://127.0.0.1:1/?token=hush", false, false},
		{"no such host", "http://nowhere.invalid/?token=hush", false, false},
		{"no answer", silent + "/?token=hush", false, true},
		{"hangs up", hangsUp + "/?token=hush", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := opened(t, c.url, func(cfg *Config) { cfg.Timeout = 300 * time.Millisecond })
			err := send(t, b, order)[0]
			if _, asked := waybill.AfterOf(err); !waybill.IsUnavailable(err) || asked {
				t.Fatalf("Send() = %v of kind %v, want unavailable as a whole", err, waybill.KindOf(err))
			}
			if errors.Is(err, contract.ErrConnectionLost) != c.lost {
				t.Errorf("Send() = %v, connection lost: want %v", err, c.lost)
			}
			if errors.Is(err, context.DeadlineExceeded) != c.deadline {
				t.Errorf("Send() = %v, deadline exceeded: want %v", err, c.deadline)
			}
			if strings.Contains(err.Error(), "hush") {
				t.Errorf("the error %q shows the URL", err)
			}
		})
	}
}

// TestSender_Guarded: a name that leads to a special address is refused when it is dialled.
func TestSender_Guarded(t *testing.T) {
	t.Parallel()
	reached := make(chan struct{}, 10)
	url := serving(t, func(http.ResponseWriter, *http.Request) { reached <- struct{}{} })
	_, port, _ := strings.Cut(strings.TrimPrefix(url, "http://"), ":")
	for _, host := range []string{"localhost", "LOCALHOST"} {
		b := opened(t, "http://"+host+":"+port, func(cfg *Config) { cfg.AllowNetworks = nil })
		if err := send(t, b, order)[0]; !waybill.IsUnavailable(err) || !strings.Contains(err.Error(), "not public") {
			t.Errorf("Send() = %v to %s, want the address refused", err, host)
		}
	}
	if len(reached) > 0 {
		t.Error("a request came through")
	}
}

// TestSender_Redirect: a redirect could lead into the sender's network, so none is followed.
func TestSender_Redirect(t *testing.T) {
	t.Parallel()
	reached := make(chan struct{}, 1)
	inside := serving(t, func(http.ResponseWriter, *http.Request) { reached <- struct{}{} })
	b := opened(t, serving(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, inside, http.StatusTemporaryRedirect)
	}), nil)
	if err := send(t, b, order)[0]; !waybill.IsTransient(err) {
		t.Errorf("Send() = %v of kind %v, want transient", err, waybill.KindOf(err))
	}
	if len(reached) > 0 {
		t.Error("the redirect was followed")
	}
}

// TestSender_EndlessResponse: an endpoint that never stops answering holds nothing up.
func TestSender_EndlessResponse(t *testing.T) {
	t.Parallel()
	b := opened(t, serving(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 32<<10)); err != nil {
				return
			}
		}
	}), nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := b.Publisher().Send(ctx, out(order))()[0]; err != nil || ctx.Err() != nil {
		t.Errorf("Send() = %v, and its context: %v; want it accepted before that ends", err, ctx.Err())
	}
}

// TestSender_KeyStops: what is behind a failed message of its key is not sent, others are.
func TestSender_KeyStops(t *testing.T) {
	t.Parallel()
	for _, code := range []int{500, 502, 410} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var seen []string
			b := opened(t, serving(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				id := r.Header.Get("ce-id")
				seen = append(seen, id)
				if id == "a2" {
					w.WriteHeader(code)
				}
			}), nil)
			keyed := func(id, key string) waybill.Message {
				return waybill.Message{ID: id, Source: "shop", Topic: "orders", Key: key}
			}
			errs := send(t, b, keyed("a1", "a"), keyed("a2", "a"), keyed("b1", "b"), keyed("a3", "a"), keyed("b2", "b"))
			if errs[0] != nil || errs[1] == nil || errs[2] != nil || !errors.Is(errs[3], errBehind) || errs[4] != nil {
				t.Errorf("results %v, want the second refused and the fourth behind it", errs)
			}
			if _, alone := waybill.AfterOf(errs[3]); alone != (code != 502) || !waybill.IsUnavailable(errs[3]) {
				t.Errorf("the message behind has %v, want it to wait where the one before it waits", errs[3])
			}
			slices.Sort(seen)
			if want := []string{"a1", "a2", "b1", "b2"}; !slices.Equal(seen, want) {
				t.Errorf("posted %v, want %v", seen, want)
			}
		})
	}
}

// TestSender_Attempts: the first attempt is marked as the first, all later ones are not, under one
// webhook-id; a new life has another.
func TestSender_Attempts(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var ids, attempts []string
	code := http.StatusInternalServerError
	b := opened(t, serving(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		ids, attempts = append(ids, r.Header.Get(HeaderID)), append(attempts, r.Header.Get(attemptHeader))
		w.WriteHeader(code)
	}), nil)
	send(t, b, order)
	code = http.StatusOK
	send(t, b, order)
	m := order
	next := out(m)
	next[0].DedupID = m.ID + "#r1"
	if err := b.Publisher().Send(t.Context(), next)()[0]; err != nil {
		t.Fatal(err)
	}
	next[0].Resent = true
	b.Publisher().Send(t.Context(), next)()
	if want := []string{"first", "again", "first", "again"}; !slices.Equal(attempts, want) {
		t.Errorf("attempts %v, want %v", attempts, want)
	}
	if ids[0] != ids[1] || ids[2] != ids[3] || ids[0] == ids[2] || !strings.HasPrefix(ids[0], ownPrefix) {
		t.Errorf("ids %v, want one for each life", ids)
	}
}

// TestBroker_Several: the publisher of a broker with several endpoints never sends a message to
// more than one of them.
func TestBroker_Several(t *testing.T) {
	t.Parallel()
	url := serving(t, func(http.ResponseWriter, *http.Request) {})
	b := opened(t, url, func(cfg *Config) {
		second := cfg.Endpoints[0]
		second.Name, second.Types = "second", []broker.Pattern{"invoice.*"}
		cfg.Endpoints[0].Topics = []broker.Pattern{"order.*", "both"}
		third := second
		third.Name, third.Types, third.Topics = "third", nil, []broker.Pattern{"both"}
		cfg.Endpoints = append(cfg.Endpoints, second, third)
	})
	message := func(topic, typ, to string) waybill.Message {
		return waybill.Message{Source: "shop", Topic: topic, Type: typ, To: to}
	}
	errs := send(t, b, message("order.placed", "", ""), message("x", "invoice.paid", ""), message("x", "x", ""), message("both", "", ""),
		message("", "x", "third"), message("", "x", "nobody"))
	for i, want := range []bool{true, true, false, false, true, false} {
		if (errs[i] == nil) != want || !want && waybill.ReasonOf(errs[i]) != waybill.ReasonUnroutable {
			t.Errorf("message %d: %v, want it delivered: %v", i, errs[i], want)
		}
	}
	if names := destinationNames(b); !slices.Equal(names, []string{"acme", "second", "third"}) {
		t.Errorf("destinations %v", names)
	}
}

func destinationNames(b *Broker) []string {
	var names []string
	for _, d := range b.Destinations() {
		names = append(names, d.Name)
	}
	return names
}

// TestSender_Disabled: nothing new is for a disabled endpoint, and what waits for it waits on.
func TestSender_Disabled(t *testing.T) {
	t.Parallel()
	b := opened(t, "https://acme.example/", func(cfg *Config) { cfg.Endpoints[0].Disabled = true })
	d := b.Destinations()[0]
	if d.Match(&order) {
		t.Error("Match() = true for a disabled endpoint")
	}
	if after, ok := waybill.AfterOf(d.Publisher.Send(t.Context(), out(order))()[0]); !ok || after != disabledDelay {
		t.Errorf("a message waits %v, %v, want %v", after, ok, disabledDelay)
	}
}

func TestNew_Refused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"is empty, and Receiver": func(c *Config) { c.Endpoints = nil },
		"no URL":                 func(c *Config) { c.Endpoints[0].URL = "https:///hush" },
		"scheme":                 func(c *Config) { c.Endpoints[0].URL = "ftp://acme.example/hush" },
		"fragment":               func(c *Config) { c.Endpoints[0].URL = "https://acme.example/#hush" },
		"Name":                   func(c *Config) { c.Endpoints[0].Name = "" },
		"another endpoint":       func(c *Config) { c.Endpoints = append(c.Endpoints, c.Endpoints[0]) },
		"Secret":                 func(c *Config) { c.Endpoints[0].Secrets = nil },
		"base64":                 func(c *Config) { c.Endpoints[0].Secrets = []Secret{"whsec_hush!"} },
		"'*'":                    func(c *Config) { c.Endpoints[0].Topics = []broker.Pattern{"a*b"} },
		"webhook-":               func(c *Config) { c.Endpoints[0].Headers = map[string]string{"Webhook-Id": "x"} },
		"Ce-id":                  func(c *Config) { c.Endpoints[0].Headers = map[string]string{"Ce-id": "x"} },
		"printable":              func(c *Config) { c.Endpoints[0].Headers = map[string]string{"x": "hush\r\nhost: inside"} },
		"letters":                func(c *Config) { c.Endpoints[0].Headers = map[string]string{"a b": "hush"} },
		"Timeout":                func(c *Config) { c.Timeout = time.Hour },
		"Parallelism":            func(c *Config) { c.Parallelism = 257 },
	} {
		cfg := Config{Endpoints: []Endpoint{{Name: "acme", URL: "https://acme.example/", Secrets: []Secret{vectorSecret}}}}
		change(&cfg)
		_, err := New(cfg)
		if err == nil || waybill.ReasonOf(err) != waybill.ReasonMalformed || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "hush") {
			t.Errorf("New() = %v, want an error about %s that shows no value", err, name)
		}
	}
}
