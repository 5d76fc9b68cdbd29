package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

// natsPulls is what the requests for messages and the acknowledgements that pass the server come to.
type natsPulls struct {
	requested, settled int
}

// natsWatchPulls calls seen for each request and acknowledgement of the stream's consumers, in the
// order in which a connection has sent them.
func natsWatchPulls(t *testing.T, cfg natsbroker.Config, seen func(natsPulls)) {
	t.Helper()
	nc, _ := natsClient(t, cfg.URL)
	t.Cleanup(nc.Close)
	var sum natsPulls
	_, err := nc.Subscribe("$JS.>", func(m *nats.Msg) {
		switch {
		case strings.HasPrefix(m.Subject, "$JS.API.CONSUMER.MSG.NEXT."+cfg.Stream+"."):
			var request struct{ Batch int }
			if err := json.Unmarshal(m.Data, &request); err != nil {
				t.Errorf("request %s: %v", m.Data, err)
			}
			sum.requested += request.Batch
		case strings.HasPrefix(m.Subject, "$JS.ACK."+cfg.Stream+".") && string(m.Data) == "+ACK":
			sum.settled++
		default:
			return
		}
		seen(sum)
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestNATSBroker_AsksAhead handles half of what was asked for. The subscription must ask for as
// many again while the rest is in flight, and never for more than its prefetch.
func TestNATSBroker_AsksAhead(t *testing.T) {
	t.Parallel()
	const prefetch, n = 10, 500
	cfg := natsConfig(t, natsURL(t))
	b := natsOpen(t, cfg)
	pulls := make(chan natsPulls, 10*n)
	natsWatchPulls(t, cfg, func(p natsPulls) {
		if p.settled < n && p.requested-p.settled > prefetch { // after that, a last request clears up
			t.Errorf("%d messages were asked for and %d settled, the prefetch is %d", p.requested, p.settled, prefetch)
		}
		pulls <- p
	})
	natsMustSend(t, b, natsMessages("t", 1, prefetch/2))
	ctx, cancel := context.WithCancel(context.Background())
	all, ended := make(chan struct{}), make(chan error, 1)
	handled := 0
	go func() {
		ended <- b.Subscriber(consumer.Subscription{Group: "g", Topics: []string{"t"}}).Subscribe(ctx, prefetch, func(d contract.Delivery) {
			if m, _ := d.Message(); string(m.Payload) != fmt.Sprint(handled+1) {
				t.Errorf("payload %q, want %d", m.Payload, handled+1)
			}
			d.Ack(ctx)
			if handled++; handled == n {
				close(all)
			}
		})
	}()
	natsEventually(t, "a second request", func() bool {
		select {
		case p := <-pulls:
			return p.settled == prefetch/2 && p.requested == prefetch+prefetch/2
		default:
			return false
		}
	})
	natsMustSend(t, b, natsMessages("t", prefetch/2+1, n))
	<-all
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Subscribe() = %v", err)
	}
}

// TestNATSBroker_MaxWaiting has a consumer that lets one request wait. What is asked ahead is
// refused, and all messages arrive anyway.
func TestNATSBroker_MaxWaiting(t *testing.T) {
	t.Parallel()
	const n = 100
	cfg := natsConfig(t, natsURL(t))
	b := natsOpen(t, cfg)
	s := consumer.Subscription{Group: "g", Topics: []string{"t"}}
	natsMustSend(t, b, natsMessages("t", 1, 1))
	ctx, cancel := context.WithCancel(t.Context())
	if err := b.Subscriber(s).Subscribe(ctx, 1, func(contract.Delivery) { cancel() }); err != nil {
		t.Fatal(err)
	}
	nc, js := natsClient(t, cfg.URL)
	defer nc.Close()
	natsLetOneWait(t, js, cfg.Stream)
	got, _ := natsSubscribe(t, b, s)
	natsExpect(t, got, "1")
	for i := 2; i <= n; i++ {
		natsMustSend(t, b, natsMessages("t", i, i))
		natsExpect(t, got, fmt.Sprint(i))
	}
}

// natsLetOneWait recreates the stream's only consumer, so that one request may wait.
func natsLetOneWait(t *testing.T, js jetstream.JetStream, stream string) {
	t.Helper()
	names := natsConsumers(t, js, stream)
	if len(names) != 1 {
		t.Fatalf("consumers %v, want one", names)
	}
	c, err := js.Consumer(t.Context(), stream, names[0])
	if err != nil {
		t.Fatal(err)
	}
	cfg := c.CachedInfo().Config
	cfg.MaxWaiting = 1
	natsDeleteConsumer(t, js, stream, names[0])
	if _, err := js.CreateConsumer(t.Context(), stream, cfg); err != nil {
		t.Fatal(err)
	}
}
