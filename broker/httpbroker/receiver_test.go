package httpbroker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

// httpClient keeps no connections: httptest closes idle ones of the default client, also those that
// another test is about to use.
var httpClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

const patience = 5 * time.Minute

// receiving returns a receiver of the vector's secret and the URL that it is served at.
func receiving(t *testing.T, change func(*ReceiverConfig)) (*Receiver, string) {
	t.Helper()
	cfg := ReceiverConfig{Secrets: []Secret{vectorSecret}}
	if change != nil {
		change(&cfg)
	}
	r, err := NewReceiver(cfg)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(r)
	t.Cleanup(func() {
		r.Close()
		server.Close()
	})
	return r, server.URL
}

// subscribed runs a subscription until the test ends, and returns once it is there.
func subscribed(t *testing.T, r *Receiver, s consumer.Subscription, deliver func(contract.Delivery)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Subscriber(s).Subscribe(ctx, 10, deliver) }()
	stop = func() { cancel(); <-ended; ended <- nil }
	t.Cleanup(stop)
	until(t, "the subscription", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, q := range r.queues {
			if q.subscription.Group == s.Group {
				return true
			}
		}
		return false
	})
	return stop
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick, deadline := time.NewTicker(time.Millisecond), time.After(patience)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

var orders = consumer.Subscription{Group: "billing", Topics: []string{"order.placed"}}

// post posts a body signed at a time, with further headers, and returns the response.
func post(t *testing.T, url, id string, at time.Time, body string, headers map[string]string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if err := Sign(req.Header, id, at, []byte(body), vectorSecret); err != nil {
		t.Fatal(err)
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

var binary = map[string]string{"ce-specversion": "1.0", "ce-id": "1", "ce-source": "elsewhere", "ce-type": "order.placed", "content-type": "application/json"}

// TestReceiver_Settlement: the sender receives 2xx after Ack only, and is asked to retry otherwise.
func TestReceiver_Settlement(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		settle func(d contract.Delivery) error
		code   int
		after  string
	}{
		{"ack", func(d contract.Delivery) error { return d.Ack(context.Background()) }, 204, ""},
		{"retry", func(d contract.Delivery) error { return d.Retry(context.Background(), 1500*time.Millisecond) }, 503, "2"},
		{"retry at once", func(d contract.Delivery) error { return d.Retry(context.Background(), 0) }, 503, "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, url := receiving(t, nil)
			subscribed(t, r, orders, func(d contract.Delivery) {
				if err := errors.Join(d.Extend(context.Background()), c.settle(d)); err != nil {
					t.Errorf("settlement: %v", err)
				}
				if err := d.Ack(context.Background()); err == nil {
					t.Error("a second settlement returned nil")
				}
			})
			resp := post(t, url, "id", time.Now(), "{}", binary)
			if resp.StatusCode != c.code || resp.Header.Get("Retry-After") != c.after {
				t.Errorf("answered %d, Retry-After %q, want %d, %q", resp.StatusCode, resp.Header.Get("Retry-After"), c.code, c.after)
			}
		})
	}
}

func TestReceiver_Refused(t *testing.T) {
	t.Parallel()
	r, url := receiving(t, func(c *ReceiverConfig) { c.MaxBody = 100 })
	subscribed(t, r, orders, func(d contract.Delivery) {
		t.Error("a delivery")
		d.Ack(context.Background())
	})
	now := time.Now()
	with := func(name, value string) map[string]string {
		h := maps.Clone(binary)
		h[name] = value
		return h
	}
	for _, c := range []struct {
		name    string
		at      time.Time
		body    string
		headers map[string]string
		want    int
	}{
		{"6 minutes old", now.Add(-6 * time.Minute), "{}", binary, 401},
		{"6 minutes ahead", now.Add(6 * time.Minute), "{}", binary, 401},
		{"wrong signature", now, "{}", with("webhook-signature", vectorSignature), 401},
		{"no signature", now, "{}", with("webhook-signature", ""), 401},
		{"another id", now, "{}", with("webhook-id", "other"), 401},
		{"large", now, strings.Repeat("x", 101), binary, 413},
		{"batch", now, "[]", with("content-type", "application/cloudevents-batch+json"), 415},
		{"other format", now, "{}", with("content-type", "application/cloudevents+protobuf"), 415},
		{"no type, no topic", now, "[]", with("content-type", "application/cloudevents+json"), 400},
		{"nobody receives it", now, "{}", with("ce-type", "order.lost"), 503},
	} {
		if got := post(t, url, "id", c.at, c.body, c.headers).StatusCode; got != c.want {
			t.Errorf("%s: answered %d, want %d", c.name, got, c.want)
		}
	}
	resp, err := httpClient.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "POST" {
		t.Errorf("GET is answered with %d, want 405", resp.StatusCode)
	}
}

// TestReceiver_Tampered changes what the signature of the convention does not cover, the headers
// that carry the message, between sender and receiver.
func TestReceiver_Tampered(t *testing.T) {
	t.Parallel()
	r, url := receiving(t, nil)
	got := make(chan *waybill.Message, 10)
	subscribed(t, r, orders, func(d contract.Delivery) {
		m, _ := d.Message()
		got <- m
		d.Ack(context.Background())
	})
	var tamper func(h http.Header)
	between := serving(t, func(w http.ResponseWriter, in *http.Request) {
		body, _ := io.ReadAll(in.Body)
		out, err := http.NewRequestWithContext(in.Context(), http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		out.Header = in.Header.Clone()
		tamper(out.Header)
		resp, err := httpClient.Do(out)
		if err != nil {
			t.Error(err)
			return
		}
		resp.Body.Close()
		w.WriteHeader(resp.StatusCode)
	})
	b := opened(t, between, nil)
	m := order
	m.Headers, m.Key = map[string]string{"user": "ann"}, "k"
	for name, change := range map[string]func(h http.Header){
		"source":           func(h http.Header) { h.Set("ce-source", "other") },
		"id":               func(h http.Header) { h.Set("ce-id", "2") },
		"type":             func(h http.Header) { h.Set("ce-type", "order.cancelled") },
		"attribute added":  func(h http.Header) { h.Set("ce-tenant", "acme") },
		"attribute gone":   func(h http.Header) { h.Del("ce-partitionkey") },
		"header":           func(h http.Header) { h.Set("waybill-header-user", "eve") },
		"header added":     func(h http.Header) { h.Set("waybill-header-admin", "true") },
		"topic":            func(h http.Header) { h.Set("waybill-topic", "other") },
		"content type":     func(h http.Header) { h.Set("content-type", "text/html") },
		"attribute, twice": func(h http.Header) { h.Add("ce-id", "2") },
	} {
		tamper = change
		if err := send(t, b, m)[0]; err == nil || !strings.Contains(err.Error(), "401") {
			t.Errorf("%s changed: Send() = %v, want 401", name, err)
		}
	}
	if len(got) > 0 {
		t.Error("a changed message was delivered")
	}
	tamper = func(h http.Header) {
		h.Set("X-Forwarded-For", "192.0.2.1")
		h.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		h.Del("waybill-attempt")
	}
	if err := send(t, b, m)[0]; err != nil {
		t.Errorf("Send() = %v with headers of a proxy, want nil", err)
	}
}

// TestReceiver_NobodyWaits: what was handed over and not settled is answered when the sender, the
// subscription's grace, or the receiver has ended; nothing hangs.
func TestReceiver_NobodyWaits(t *testing.T) {
	t.Parallel()
	held := make(chan contract.Delivery, 1)
	begin := func(t *testing.T, grace time.Duration) (r *Receiver, stop func(), code chan int, cancel func()) {
		r, url := receiving(t, func(c *ReceiverConfig) { c.SettleGrace = grace })
		stop = subscribed(t, r, orders, func(d contract.Delivery) { held <- d })
		ctx, cancel := context.WithCancel(t.Context())
		code = make(chan int, 1)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if err := Sign(req.Header, "id", time.Now(), []byte("{}"), vectorSecret); err != nil {
			t.Fatal(err)
		}
		for name, value := range binary {
			req.Header.Set(name, value)
		}
		go func() {
			resp, err := httpClient.Do(req)
			if err != nil {
				code <- 0
				return
			}
			resp.Body.Close()
			code <- resp.StatusCode
		}()
		return r, stop, code, cancel
	}

	_, stop, code, _ := begin(t, time.Millisecond)
	d := <-held
	stop()
	if got := <-code; got != 503 {
		t.Errorf("answered %d after the subscription's end, want 503", got)
	}
	until(t, "the settlement to fail", func() bool { return d.Extend(t.Context()) != nil })
	if err := d.Ack(t.Context()); !waybill.IsUnavailable(err) {
		t.Errorf("Ack() = %v after the answer, want unavailable", err)
	}

	_, stop, code, _ = begin(t, time.Hour)
	d = <-held
	stop()
	if err := d.Ack(t.Context()); err != nil {
		t.Errorf("Ack() = %v within the grace of the subscription, want nil", err)
	}
	if got := <-code; got != 204 {
		t.Errorf("answered %d, want 204", got)
	}

	r, _, code, _ := begin(t, time.Hour)
	d = <-held
	r.Close()
	if got := <-code; got != 503 {
		t.Errorf("answered %d when closed, want 503", got)
	}
	if err := d.Ack(t.Context()); !waybill.IsUnavailable(err) {
		t.Errorf("Ack() = %v when closed, want unavailable", err)
	}
	if err := r.Subscriber(orders).Subscribe(t.Context(), 1, nil); !waybill.IsUnavailable(err) {
		t.Errorf("Subscribe() = %v when closed, want unavailable", err)
	}

	_, _, code, cancel := begin(t, time.Hour)
	d = <-held
	cancel()
	<-code
	until(t, "the delivery to learn of it", func() bool { return d.Extend(t.Context()) != nil })
	if err := d.Ack(t.Context()); !errors.Is(err, errGone) {
		t.Errorf("Ack() = %v after the sender has gone, want errGone", err)
	}
}

// TestReceiver_Crowded: no more requests are held than the limit says.
func TestReceiver_Crowded(t *testing.T) {
	t.Parallel()
	r, url := receiving(t, func(c *ReceiverConfig) { c.MaxRequests = 1 })
	held := make(chan contract.Delivery, 1)
	subscribed(t, r, orders, func(d contract.Delivery) { held <- d })
	code := make(chan int, 1)
	go func() { code <- post(t, url, "id", time.Now(), "{}", binary).StatusCode }()
	d := <-held
	if got := post(t, url, "id2", time.Now(), "{}", binary).StatusCode; got != 503 {
		t.Errorf("answered %d beyond the limit, want 503", got)
	}
	d.Ack(t.Context())
	if got := <-code; got != 204 {
		t.Errorf("answered %d, want 204", got)
	}
}

// TestReceiver_Groups: with two groups the sender is done when both are; the one that has the
// message already gets it again, as a repetition.
func TestReceiver_Groups(t *testing.T) {
	t.Parallel()
	r, url := receiving(t, nil)
	ready := false
	subscribed(t, r, orders, func(d contract.Delivery) { d.Ack(context.Background()) })
	second := orders
	second.Group = "shipping"
	subscribed(t, r, second, func(d contract.Delivery) {
		if ready {
			d.Ack(context.Background())
			return
		}
		ready = true
		d.Retry(context.Background(), 3*time.Second)
	})
	if resp := post(t, url, "id", time.Now(), "{}", binary); resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "3" {
		t.Errorf("answered %d, Retry-After %s, want the delay of the second group", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
	if resp := post(t, url, "id", time.Now(), "{}", binary); resp.StatusCode != 204 {
		t.Errorf("answered %d, want 204", resp.StatusCode)
	}
}

// TestReceiver_Foreign posts what other senders post, and looks at what a consumer gets.
func TestReceiver_Foreign(t *testing.T) {
	t.Parallel()
	const data = `{"total": 12.0,  "b": "\u00fc"}`
	event := func(members string) string {
		return `{"specversion":"1.0","id":"7","source":"elsewhere","type":"order.placed",` + members + `}`
	}
	structured := map[string]string{"content-type": "application/cloudevents+json; charset=utf-8"}
	for _, c := range []struct {
		name    string
		body    string
		headers map[string]string
		want    waybill.Message
		broken  bool
	}{
		{"Standard Webhooks without an envelope", `{"type":"order.placed","data":1}`, map[string]string{"content-type": "application/json"},
			waybill.Message{Type: "order.placed", ContentType: "application/json", Payload: []byte(`{"type":"order.placed","data":1}`)}, false},
		{"binary", "payload", map[string]string{"ce-specversion": "1.0", "ce-id": "7", "ce-source": "elsewhere", "ce-type": "order.placed", "content-type": "text/plain", "ce-subject": "a%20b"},
			waybill.Message{ID: "7", Source: "elsewhere", Type: "order.placed", Subject: "a b", ContentType: "text/plain", Payload: []byte("payload")}, false},
		{"structured, JSON data as it was written", event(`"data":` + data), structured,
			waybill.Message{ID: "7", Source: "elsewhere", Type: "order.placed", ContentType: "application/json", Payload: []byte(data)}, false},
		{"structured, bytes", event(`"datacontenttype":"image/png","data_base64":"AP8="`), structured,
			waybill.Message{ID: "7", Source: "elsewhere", Type: "order.placed", ContentType: "image/png", Payload: []byte{0, 255}}, false},
		{"structured, text", event(`"datacontenttype":"text/plain","data":"a\"b","partitionkey":"k"`), structured,
			waybill.Message{ID: "7", Source: "elsewhere", Type: "order.placed", ContentType: "text/plain", Payload: []byte(`a"b`), Key: "k"}, false},
		{"structured, extensions", event(`"number":4,"flag":true,"none":null`), structured,
			waybill.Message{ID: "7", Source: "elsewhere", Type: "order.placed", ContentType: "application/json", Headers: map[string]string{"number": "4", "flag": "true"}}, false},
		{"structured, object as an attribute", event(`"subject":{}`), structured, waybill.Message{}, true},
		{"structured, both kinds of data", event(`"data":1,"data_base64":"AP8="`), structured, waybill.Message{}, true},
		{"structured, another version", `{"specversion":"0.3","type":"order.placed"}`, structured, waybill.Message{}, true},
		{"binary, broken time", "payload", map[string]string{"ce-specversion": "1.0", "ce-type": "order.placed", "ce-time": "yesterday"}, waybill.Message{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, url := receiving(t, nil)
			type arrival struct {
				m     *waybill.Message
				err   error
				again bool
			}
			got := make(chan arrival, 1)
			subscribed(t, r, orders, func(d contract.Delivery) {
				m, err := d.Message()
				got <- arrival{m, err, d.Redelivered()}
				d.Ack(context.Background())
			})
			if code := post(t, url, "foreign_1", time.Now(), c.body, c.headers).StatusCode; code != 204 {
				t.Fatalf("answered %d, want 204", code)
			}
			a := <-got
			if c.broken {
				if !waybill.IsPermanent(a.err) || waybill.ReasonOf(a.err) != waybill.ReasonMalformed {
					t.Errorf("Message() = %v, want malformed", a.err)
				}
				return
			}
			c.want.Topic, c.want.IdempotencyKey = "order.placed", "foreign_1"
			g, _ := json.Marshal(a.m)
			w, _ := json.Marshal(&c.want)
			if a.err != nil || !bytes.Equal(g, w) {
				t.Errorf("Message() = %s, %v\nwant %s", g, a.err, w)
			}
			if !a.again {
				t.Error("Redelivered() = false although nobody knows")
			}
		})
	}
}

func TestReceiver_MalformedEvent(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "[]", "null", "{", `"x"`, strings.Repeat("[", 10_000)} {
		m, err := decode(http.Header{contentType: {"application/cloudevents+json"}}, []byte(body))
		if m == nil || string(m.Payload) != body && body != "null" {
			t.Errorf("decode(%.20q) lost the payload", body)
		}
		if body != "null" && !waybill.IsPermanent(err) {
			t.Errorf("decode(%.20q) = %v, want malformed", body, err)
		}
		if err != nil && len(body) > 5 && strings.Contains(err.Error(), body[:5]) {
			t.Errorf("the error %q shows the body", err)
		}
	}
}

func TestNewReceiver_Refused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*ReceiverConfig){
		"Secret":      func(c *ReceiverConfig) { c.Secrets = nil },
		"Tolerance":   func(c *ReceiverConfig) { c.Tolerance = 2 * time.Hour },
		"MaxBody":     func(c *ReceiverConfig) { c.MaxBody = -1 },
		"MaxRequests": func(c *ReceiverConfig) { c.MaxRequests = -1 },
		"SettleGrace": func(c *ReceiverConfig) { c.SettleGrace = -1 },
	} {
		cfg := ReceiverConfig{Secrets: []Secret{vectorSecret}}
		change(&cfg)
		if _, err := NewReceiver(cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("NewReceiver() = %v, want an error about %s", err, name)
		}
	}
	if err := opened(t, "https://acme.example/", nil).Subscriber(orders).Subscribe(t.Context(), 1, nil); !waybill.IsPermanent(err) {
		t.Errorf("Subscribe() = %v without a receiver, want permanent", err)
	}
}

// FuzzDecode looks for requests that decode to nothing, or end the process.
func FuzzDecode(f *testing.F) {
	f.Add("application/cloudevents+json", "ce-time", "x", `{"specversion":"1.0","data":{},"id":1}`)
	f.Add("text/plain", "waybill-header-a", "%41%zz\"", "payload")
	f.Add("", "ce-specversion", "1.0", `{"type":"x"}`)
	f.Fuzz(func(t *testing.T, media, name, value, body string) {
		h := http.Header{contentType: {media}}
		h.Set(name, value)
		m, err := decode(h, []byte(body))
		if m == nil {
			t.Fatal("decode() returned no message")
		}
		if err != nil && !waybill.IsPermanent(err) {
			t.Errorf("decode() = %v, want permanent", err)
		}
		if fmt.Sprint(digest(h)) != digest(h.Clone()) {
			t.Error("digest() is not stable")
		}
	})
}
