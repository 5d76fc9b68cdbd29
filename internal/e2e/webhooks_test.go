package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	brokers "github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/httpbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
	"github.com/waybill-go/waybill/relay"
)

// loopback is where the endpoints of stories are.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// hook is a subscriber's own server: it knows the convention, and nothing of this project.
type hook struct {
	secret httpbroker.Secret
	server *httptest.Server

	mu    sync.Mutex
	posts map[string]int // by the id of the event
	wrong int            // requests that did not verify
	last  *http.Request  // with its body
}

func newHook(t *testing.T) *hook {
	h := &hook{secret: httpbroker.NewSecret(), posts: make(map[string]int)}
	h.server = httptest.NewServer(h)
	t.Cleanup(h.server.Close)
	return h
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil || httpbroker.Verify(r.Header, body, 0, h.secret) != nil {
		h.wrong++
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	h.posts[r.Header.Get("ce-id")]++
	h.last = r.Clone(r.Context())
	h.last.Body = io.NopCloser(bytes.NewReader(body))
}

// counts returns how many different events were posted, and how many requests there were.
func (h *hook) counts() (events, requests int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.posts {
		requests += n
	}
	return len(h.posts), requests
}

// endpoint is a subscriber of all orders at an URL.
func endpoint(name, url string, secret httpbroker.Secret) httpbroker.Endpoint {
	return httpbroker.Endpoint{Name: name, URL: url, Secrets: []httpbroker.Secret{secret}, Topics: []brokers.Pattern{"order.*"}}
}

// TestWebhooks (AS-65) has three subscribers of which one is down: only that one is retried, and none
// gets anything twice. One of those that are up is a consumer with an inbox.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	const n = 30
	w := plainWorld(t)
	up, down := newHook(t), newHook(t)
	address, err := url.Parse(down.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	line, err := faultproxy.New(t.Context(), address.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(line.Close)
	line.Refuse(true)

	secret := httpbroker.NewSecret()
	receiver, err := httpbroker.NewReceiver(httpbroker.ReceiverConfig{Secrets: []httpbroker.Secret{secret}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(receiver)
	t.Cleanup(server.Close)
	t.Cleanup(func() { receiver.Close() })
	sub := from(receiver, consumer.Subscription{Group: "billing", Topics: []string{"order.placed"}})
	w.startConsumer(t, sub, w.effectHandler("billing"), consumer.Config{})

	b, err := httpbroker.New(httpbroker.Config{
		AllowNetworks: loopback,
		Endpoints: []httpbroker.Endpoint{
			endpoint("up", up.server.URL, up.secret),
			endpoint("down", "http://"+line.Addr(), down.secret),
			endpoint("consumer", server.URL, secret),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	r, err := relay.NewFanout(w.store, b.Destinations(), quick(relay.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	run(t, t.Context(), r.Run)
	msgs := numbered("m", "order.placed", n)
	for i := range msgs {
		msgs[i].Key = strconv.Itoa(i % 7)
	}
	w.enqueue(t, msgs...)

	effects := func() int { return w.number(t, "SELECT count(*) FROM "+w.table("effects")) }
	eventually(t, "the two that are up have all", func() bool {
		events, _ := up.counts()
		return events == n && effects() == n
	})
	delivered := "SELECT count(*) FROM " + w.table("messages") + " WHERE status = 'Published' AND id <> 'held' AND destination = "
	waiting := "SELECT count(*) FROM " + w.table("messages") + " WHERE status = 'Waiting' AND attempts = 0 AND destination = "
	eventually(t, "their deliveries are settled, and the third one's wait uncounted", func() bool {
		return w.number(t, delivered+"'up'") == n && w.number(t, delivered+"'consumer'") == n && w.number(t, waiting+"'down'") == n
	})
	eventually(t, "the third one was tried again", func() bool { return r.Status().LastError != "" && len(r.Status().Paused) == 1 })

	line.Refuse(false)
	eventually(t, "the third one has all", func() bool {
		events, _ := down.counts()
		return events == n && w.number(t, delivered+"'down'") == n
	})
	for name, h := range map[string]*hook{"up": up, "down": down} {
		if events, requests := h.counts(); events != n || requests != n || h.wrong != 0 {
			t.Errorf("%s got %d events in %d requests, %d of which did not verify, want %d, each once", name, events, requests, h.wrong, n)
		}
	}
	if got := effects(); got != n {
		t.Errorf("%d effects, want %d", got, n)
	}
	up.replays(t)
}

// replays posts the last request again: it verifies as it is, and neither when it is changed nor
// when it is old.
func (h *hook) replays(t *testing.T) {
	t.Helper()
	body, err := io.ReadAll(h.last.Body)
	if err != nil {
		t.Fatal(err)
	}
	id := h.last.Header.Get("webhook-id")
	old := h.last.Header.Clone()
	if err := httpbroker.Sign(old, id, time.Now().Add(-6*time.Minute), body, h.secret); err != nil {
		t.Fatal(err)
	}
	moved := h.last.Header.Clone()
	moved.Set("webhook-timestamp", strconv.FormatInt(time.Now().Add(time.Minute).Unix(), 10))
	for _, c := range []struct {
		name   string
		header http.Header
		body   []byte
		want   int
	}{
		{"as it was", h.last.Header, body, 200},
		{"6 minutes old", old, body, 401},
		{"under another time", moved, body, 401},
		{"with another body", h.last.Header, append(bytes.Clone(body), ' '), 401},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.server.URL, bytes.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = c.header
		resp, err := httpClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s: answered %d, want %d", c.name, resp.StatusCode, c.want)
		}
	}
}

// TestWebhookOrder lets an endpoint refuse every fourth message at first: what follows in its key
// waits for it, and nothing is posted again that was taken.
func TestWebhookOrder(t *testing.T) {
	t.Parallel()
	const n, keys = 40, 3
	w := plainWorld(t)
	var mu sync.Mutex
	tries, taken := make(map[string]int), []string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		id := r.Header.Get("ce-id")
		tries[id]++
		if number, err := strconv.Atoi(id[1:]); err != nil || number%4 == 0 && tries[id] == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		taken = append(taken, id)
	}))
	t.Cleanup(server.Close)
	b, err := httpbroker.New(httpbroker.Config{
		AllowNetworks: loopback,
		Endpoints:     []httpbroker.Endpoint{endpoint("hook", server.URL, httpbroker.NewSecret())},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	msgs := numbered("m", "order.placed", n)
	for i := range msgs {
		msgs[i].Key = strconv.Itoa(i % keys)
	}
	w.enqueue(t, msgs...)
	w.startRelay(t, b.Publisher(), relay.Config{})
	eventually(t, "all are taken", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(taken) >= n
	})
	mu.Lock()
	defer mu.Unlock()
	last := make(map[int]int)
	for _, id := range taken {
		number, _ := strconv.Atoi(id[1:])
		if before, ok := last[number%keys]; ok && number <= before {
			t.Errorf("m%d was taken after m%d of its key", number, before)
		}
		last[number%keys] = number
	}
	if len(taken) != n {
		t.Errorf("%d messages were taken, want %d, each once", len(taken), n)
	}
}
