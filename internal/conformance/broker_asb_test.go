package conformance

import (
	"context"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/asbbroker"
	"github.com/waybill-go/waybill/broker/brokertest"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
	"github.com/waybill-go/waybill/internal/testtools/sbfake"
)

var _ broker.Broker = (*asbbroker.Broker)(nil)

// asbLock is the shortest lock that asbbroker allows.
const asbLock = 16 * time.Second

func TestASBBroker(t *testing.T) {
	of, elapse := asbPerTest(t)
	brokertest.Run(t, brokertest.Harness{
		Name:     "azure service bus",
		Features: brokertest.Features{MaxPayload: waybill.MaxPayloadLen, LapseAfter: asbLock, CountsHeld: true},
		Open: func(t *testing.T) broker.Broker {
			return of(t).open(t, asbbroker.Config{MaxPayload: waybill.MaxPayloadLen})
		},
		Faulty: asbFaulty(of),
		PublishRaw: func(t *testing.T, topic string, payload []byte, attributes map[string]string) {
			t.Helper()
			of(t).publishRaw(t, topic, payload, attributes)
		},
		Elapse:     elapse,
		Goroutines: []string{"github.com/Azure/"},
	})
	t.Parallel() // once goroutines were counted
}

// asbPerTest returns the namespace of each subtest, and what puts its clock forward: a fake of its own,
// or the real one for all, whose clock nobody moves.
func asbPerTest(t *testing.T) (of func(*testing.T) *asb, elapse func(*testing.T, time.Duration)) {
	t.Helper()
	if os.Getenv("SERVICEBUS_CONNECTION") != "" {
		a := newASB(t)
		return func(*testing.T) *asb { return a }, nil
	}
	var mu sync.Mutex
	fakes := make(map[*testing.T]*asb)
	of = func(t *testing.T) *asb {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if fakes[t] == nil {
			fakes[t] = newFakeASB(t)
		}
		return fakes[t]
	}
	return of, func(t *testing.T, d time.Duration) { of(t).fake.Advance(d) }
}

// asb is a namespace: the one that SERVICEBUS_CONNECTION names, in the tier Premium because of
// the size of messages, or a fake of this test's own.
type asb struct {
	connection string
	prefix     string // of all entities of this test
	http       *http.Client
	fake       *sbfake.Server // nil if the namespace is real
}

func newASB(t *testing.T) *asb {
	t.Helper()
	connection := os.Getenv("SERVICEBUS_CONNECTION")
	if connection == "" {
		return newFakeASB(t)
	}
	a := &asb{connection: connection, prefix: "waybill-test-" + waybill.NewID() + "/"}
	t.Cleanup(func() { a.clean(t) })
	return a
}

// newFakeASB returns a fake, for tests that need a server that does what it is configured to.
func newFakeASB(t *testing.T) *asb {
	t.Helper()
	fake, err := sbfake.Start(sbfake.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	return &asb{connection: fake.ConnectionString(), http: fake.HTTPClient(), fake: fake}
}

// open returns a broker whose entities have the test's prefix. It does not close it.
func (a *asb) open(t *testing.T, cfg asbbroker.Config) *asbbroker.Broker {
	t.Helper()
	cfg.URL, cfg.HTTPClient = a.connection, a.http
	cfg.TopicPrefix, cfg.QueuePrefix = a.prefix, a.prefix+"to/"
	if cfg.LockDuration == 0 {
		cfg.LockDuration = asbLock
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	b, err := asbbroker.Open(ctx, cfg)
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// asbFaulty returns how to reach the namespace of a test through a proxy, nil if it is a real one, of
// which no proxy can read what passes.
func asbFaulty(of func(*testing.T) *asb) func(*testing.T) (brokertest.Faults, func() broker.Broker) {
	if os.Getenv("SERVICEBUS_CONNECTION") != "" {
		return nil
	}
	return func(t *testing.T) (brokertest.Faults, func() broker.Broker) {
		through, proxy := of(t).throughProxy(t)
		return proxy, func() broker.Broker { return through.open(t, asbbroker.Config{MaxPayload: waybill.MaxPayloadLen}) }
	}
}

// throughProxy returns the fake behind a proxy.
func (a *asb) throughProxy(t *testing.T) (*asb, *faultproxy.Proxy) {
	t.Helper()
	host := a.fake.Addr()
	proxy, err := faultproxy.New(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	through := *a
	through.connection = strings.Replace(a.connection, host, proxy.Addr(), 1)
	return &through, proxy
}

func (a *asb) publishRaw(t *testing.T, topic string, payload []byte, attributes map[string]string) {
	t.Helper()
	properties := make(map[string]any)
	for name, value := range attributes {
		properties["cloudEvents_"+name] = value
	}
	a.publish(t, a.prefix+topic, &azservicebus.Message{Body: payload, ApplicationProperties: properties})
}

// publish sends past the adapter.
func (a *asb) publish(t *testing.T, entity string, m *azservicebus.Message) {
	t.Helper()
	client, err := azservicebus.NewClientFromConnectionString(a.connection, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(t.Context())
	sender, err := client.NewSender(entity, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := sender.SendMessage(t.Context(), m, nil); err != nil {
		t.Fatal(err)
	}
}

func (a *asb) admin(t *testing.T) *admin.Client {
	t.Helper()
	options := &admin.ClientOptions{}
	if a.http != nil {
		options.ClientOptions = azcore.ClientOptions{Transport: a.http}
	}
	client, err := admin.NewClientFromConnectionString(a.connection, options)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// clean deletes what the test has made in a real namespace.
func (a *asb) clean(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client := a.admin(t)
	topics, queues := client.NewListTopicsPager(nil), client.NewListQueuesPager(nil)
	for topics.More() {
		page, err := topics.NextPage(ctx)
		if err != nil {
			t.Errorf("list topics: %v", err)
			return
		}
		for _, topic := range page.Topics {
			if a.owns(topic.TopicName) {
				client.DeleteTopic(ctx, topic.TopicName, nil)
			}
		}
	}
	for queues.More() {
		page, err := queues.NextPage(ctx)
		if err != nil {
			t.Errorf("list queues: %v", err)
			return
		}
		for _, queue := range page.Queues {
			if a.owns(queue.QueueName) {
				client.DeleteQueue(ctx, queue.QueueName, nil)
			}
		}
	}
}

func (a *asb) owns(name string) bool {
	return len(name) > len(a.prefix) && name[:len(a.prefix)] == a.prefix
}
