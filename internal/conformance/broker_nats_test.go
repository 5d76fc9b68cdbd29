package conformance

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/brokertest"
	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
)

var _ broker.Broker = (*natsbroker.Broker)(nil)

// natsAckWait is near the least that natsbroker allows.
const natsAckWait = 16 * time.Second

//test:newest
func TestNATSBroker(t *testing.T) {
	runNATS(t, natsURL(t))
}

//test:setup
func TestNATSBroker_EmbeddedServer(t *testing.T) {
	runNATS(t, natsEmbedded(t))
}

// natsURL returns the address of the machine's server, which must run.
func natsURL(t *testing.T) string {
	t.Helper()
	url := os.Getenv("NATS_URL")
	if url == "" {
		url = nats.DefaultURL
	}
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatalf("no NATS server at NATS_URL, run \"make services\": %v", err)
	}
	nc.Close()
	return url
}

// natsEmbedded starts a server of the version in go.mod in this process.
func natsEmbedded(t *testing.T) string {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(patience) {
		t.Fatal("the embedded NATS server does not start")
	}
	return s.ClientURL()
}

func runNATS(t *testing.T, url string) {
	cfg := natsConfig(t, url)
	brokertest.Run(t, brokertest.Harness{
		Name: "nats",
		Features: brokertest.Features{
			Deduplicates: true,
			MaxPayload:   waybill.MaxPayloadLen,
			LapseAfter:   natsAckWait,
		},
		Unroutable: "no such topic",
		Open:       func(t *testing.T) broker.Broker { return natsOpen(t, cfg) },
		Patient: func(t *testing.T) broker.Broker {
			patient := cfg
			patient.AckWait = time.Hour
			return natsOpen(t, patient)
		},
		Faulty: func(t *testing.T) (brokertest.Faults, func() broker.Broker) {
			through := cfg
			var proxy *faultproxy.Proxy
			through.URL, proxy = behindProxy(t, url)
			return proxy, func() broker.Broker { return natsOpen(t, through) }
		},
		PublishRaw: func(t *testing.T, topic string, payload []byte, attributes map[string]string) {
			t.Helper()
			natsPublishRaw(t, cfg, topic, payload, attributes)
		},
		Goroutines: []string{"github.com/nats-io/nats.go"},
	})
	t.Parallel() // once goroutines were counted
}

// natsConfig returns the configuration of a stream that is this test's own and is removed
// when it ends.
func natsConfig(t *testing.T, url string) natsbroker.Config {
	t.Helper()
	id := waybill.NewID()
	cfg := natsbroker.Config{
		URL:           url,
		Stream:        "waybill-test-" + id,
		SubjectPrefix: "waybill-test-" + id + ".",
		AckWait:       natsAckWait,
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if nc, err := nats.Connect(url); err == nil {
			defer nc.Close()
			if js, err := jetstream.New(nc); err == nil {
				js.DeleteStream(ctx, cfg.Stream)
			}
		}
	})
	return cfg
}

func natsOpen(t *testing.T, cfg natsbroker.Config) *natsbroker.Broker {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	b, err := natsbroker.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func natsPublishRaw(t *testing.T, cfg natsbroker.Config, topic string, payload []byte, attributes map[string]string) {
	t.Helper()
	nc, js := natsClient(t, cfg.URL)
	defer nc.Close()
	msg := &nats.Msg{Subject: cfg.SubjectPrefix + topic, Data: payload, Header: nats.Header{}}
	for name, value := range attributes {
		msg.Header["Ce-"+name] = []string{value} // names are case-insensitive
	}
	if _, err := js.PublishMsg(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
}

func natsClient(t *testing.T, url string) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}
