package cloudevents

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/httpbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

// TestWebhookOut reads a webhook with the SDK's binding for HTTP. That leaves the attributes
// percent-encoded, which the binding's specification has readers decode.
func TestWebhookOut(t *testing.T) {
	t.Parallel()
	requests := make(chan *http.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		requests <- r
	}))
	t.Cleanup(server.Close)
	b, err := httpbroker.New(httpbroker.Config{
		Endpoints:     []httpbroker.Endpoint{{Name: "sdk", URL: server.URL, Secrets: []httpbroker.Secret{httpbroker.NewSecret()}}},
		AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	must(t, err)
	t.Cleanup(func() { b.Close() })
	for _, structured := range []bool{false, true} {
		publish(t, b, structured)
		r := <-requests
		for name, values := range r.Header {
			if strings.HasPrefix(name, "Ce-") {
				values[0], err = url.PathUnescape(values[0])
				must(t, err)
			}
		}
		expect(t, cehttp.NewMessageFromHttpRequest(r), structured)
	}
}

// TestWebhookIn posts what the SDK writes in both modes, signed, to a receiver.
func TestWebhookIn(t *testing.T) {
	t.Parallel()
	secret := httpbroker.NewSecret()
	receiver, err := httpbroker.NewReceiver(httpbroker.ReceiverConfig{Secrets: []httpbroker.Secret{secret}})
	must(t, err)
	t.Cleanup(func() { receiver.Close() })
	server := httptest.NewServer(receiver)
	t.Cleanup(server.Close)
	got := make(chan *waybill.Message, 10)
	sub := receiver.Subscriber(consumer.Subscription{Group: "reader", Topics: []string{"order.created"}})
	go sub.Subscribe(t.Context(), 1, func(d contract.Delivery) {
		if m, err := d.Message(); err == nil {
			got <- m
		}
		d.Ack(t.Context())
	})
	event := cloudevents.NewEvent()
	event.SetID("o-17")
	event.SetSource("https://shop.example/orders")
	event.SetType("order.created")
	event.SetSubject("4711")
	event.SetExtension("partitionkey", "customer-1")
	must(t, event.SetData("application/json", map[string]int{"total": 12}))
	for name, request := range map[string]func() *http.Request{
		"binary":     func() *http.Request { return written(t, server.URL, &event, false) },
		"structured": func() *http.Request { return written(t, server.URL, &event, true) },
	} {
		accepted := false
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(patience); !accepted && time.Now().Before(deadline); <-tick.C {
			r := request() // again each time: until the subscription is there, the answer is "later"
			body, err := io.ReadAll(r.Body)
			must(t, err)
			must(t, httpbroker.Sign(r.Header, waybill.NewID(), time.Now(), body, secret))
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			response, err := http.DefaultClient.Do(r)
			must(t, err)
			response.Body.Close()
			accepted = response.StatusCode < 300
		}
		if !accepted {
			t.Fatalf("%s: not accepted within 30s", name)
		}
		m := <-got
		if m.ID != "o-17" || m.Source != event.Source() || m.Type != "order.created" || m.Subject != "4711" || m.Key != "customer-1" ||
			m.ContentType != "application/json" || string(m.Payload) != `{"total":12}` {
			t.Errorf("%s: read %+v with payload %s", name, m, m.Payload)
		}
	}
}

// written returns a request that the SDK has written an event to.
func written(t *testing.T, address string, event *cloudevents.Event, structured bool) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, nil)
	must(t, err)
	ctx := binding.WithForceBinary(t.Context())
	if structured {
		ctx = binding.WithForceStructured(t.Context())
	}
	must(t, cehttp.WriteRequest(ctx, binding.ToMessage(event), r))
	return r
}
