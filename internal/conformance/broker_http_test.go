package conformance

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/brokertest"
	"github.com/waybill-go/waybill/broker/httpbroker"
)

// TestHTTPBroker posts from each connection to one receiver, over the loopback.
func TestHTTPBroker(t *testing.T) {
	secret := httpbroker.NewSecret()
	receiver, err := httpbroker.NewReceiver(httpbroker.ReceiverConfig{Secrets: []httpbroker.Secret{secret}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(receiver)
	t.Cleanup(server.Close)
	t.Cleanup(func() { receiver.Close() })
	brokertest.Run(t, brokertest.Harness{
		Name:     "webhooks",
		Features: brokertest.Features{Synchronous: true},
		Open: func(t *testing.T) broker.Broker {
			t.Helper()
			b, err := httpbroker.New(httpbroker.Config{
				Receiver:      receiver,
				Endpoints:     []httpbroker.Endpoint{{Name: "receiver", URL: server.URL, Secrets: []httpbroker.Secret{secret}}},
				AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			})
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
		PublishRaw: func(t *testing.T, topic string, payload []byte, attributes map[string]string) {
			t.Helper()
			postRaw(t, server.URL, secret, topic, payload, attributes)
		},
	})
	t.Parallel() // once goroutines were counted
}

// postRaw posts a message as somebody else's sender might, and does not wait for the answer.
func postRaw(t *testing.T, url string, secret httpbroker.Secret, topic string, payload []byte, attributes map[string]string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(payload))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("waybill-topic", topic)
	for name, value := range attributes {
		req.Header.Set("ce-"+name, value)
	}
	if err := httpbroker.Sign(req.Header, waybill.NewID(), time.Now(), payload, secret); err != nil {
		t.Fatal(err)
	}
	answered := make(chan struct{})
	t.Cleanup(func() { <-answered })
	go func() {
		defer close(answered)
		resp, err := httpClient.Do(req)
		if err != nil {
			return // the test has ended, and has found what is wrong
		}
		resp.Body.Close()
	}()
}
